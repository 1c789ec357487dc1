/** The arrows between the folders (STYLE, Layout): ops and test -> gateways | workers | projections -> schemas -> bus. */
const outside = (names) => `^(${names.join('|')})/`

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'only-what-exists', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'schemas-import-nothing-of-ours',
      severity: 'error',
      from: { path: '^schemas/' },
      to: {
        path: outside(['bus', 'gateways', 'workers', 'projections', 'ops', 'test']),
        pathNot: '^bus/message[.]ts$',
      },
    },
    {
      name: 'bus-knows-no-component',
      severity: 'error',
      from: { path: '^bus/' },
      to: {
        path: outside(['schemas', 'gateways', 'workers', 'projections', 'ops', 'test']),
        pathNot: '^schemas/(failure|errors)[.]ts$',
      },
    },
    {
      name: 'gateways-import-bus-schemas-and-read-functions',
      severity: 'error',
      from: { path: '^gateways/' },
      to: { path: outside(['workers', 'ops', 'test']) },
    },
    {
      name: 'workers-import-bus-and-schemas',
      severity: 'error',
      from: { path: '^workers/' },
      to: { path: outside(['gateways', 'projections', 'ops', 'test']) },
    },
    {
      name: 'projections-import-bus-and-schemas',
      severity: 'error',
      from: { path: '^projections/' },
      to: { path: outside(['gateways', 'workers', 'ops', 'test']) },
    },
    {
      name: 'a-door-imports-no-other-door',
      severity: 'error',
      from: { path: '^gateways/([^/]+)/', pathNot: '^gateways/(data|http)/' },
      to: { path: '^gateways/([^/]+)/', pathNot: '^gateways/($1|data|http)/' },
    },
    {
      name: 'nothing-imports-ops-but-test',
      severity: 'error',
      from: { pathNot: '^(ops|test)/' },
      to: { path: '^ops/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    // What browsers load by URL.
    exclude: { path: 'node_modules|^gateways/[a-z]+/(page|console)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
}
