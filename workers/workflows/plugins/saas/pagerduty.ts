import { type ApiOperation, defineApiPlugin, given, record, secret, text } from './api-plugin.ts'

const event = (action: string, title: string): ApiOperation => ({
  title,
  method: 'POST',
  path: '/v2/enqueue',
  required: action === 'trigger' ? ['summary', 'source', 'severity'] : ['dedupKey'],
  body: ({ routingKey, dedupKey, summary, source, severity, component, group, details }) =>
    given({
      routing_key: routingKey,
      event_action: action,
      dedup_key: dedupKey,
      payload:
        action === 'trigger'
          ? given({ summary, source, severity, component, group, custom_details: details })
          : undefined,
    }),
})

/** Source: https://developer.pagerduty.com/docs/events-api-v2/overview/ */
export const pagerduty = defineApiPlugin({
  id: 'saas.pagerduty',
  name: 'PagerDuty',
  description: 'Triggers, acknowledges and resolves alerts of PagerDuty.',
  needs: 'The integration key of a service (https://developer.pagerduty.com/docs/events-api-v2/overview/)',
  baseUrl: 'https://events.pagerduty.com',
  baseUrlExample: 'https://events.eu.pagerduty.com',
  idempotent: true,
  credentials: { routingKey: secret('Integration key', 'PAGERDUTY_KEY') },
  headers: () => ({}),
  fields: {
    dedupKey: text('Names the alert: what has the same key is the same alert', 'certificate/example.com'),
    summary: text('What it is about', 'The certificate of example.com ends in 3 days'),
    source: text('Where it was seen', 'example.com'),
    severity: text('`critical`, `error`, `warning` or `info`', 'warning'),
    component: text('What of it', 'tls'),
    group: text('What it belongs to', 'web'),
    details: record('More about it', { days: 3 }),
  },
  operations: {
    trigger: event('trigger', 'Triggers an alert'),
    acknowledge: event('acknowledge', 'Acknowledges an alert'),
    resolve: event('resolve', 'Resolves an alert'),
  },
  example: `
summary: The certificate of example.com ends in 3 days
source: example.com
severity: warning
routingKey: \${PAGERDUTY_KEY}
`,
})
