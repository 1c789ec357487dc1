#!/usr/bin/env node
// The way in, for any Node from 18 on and before anything is installed: brings the right Node and the dependencies, then
// hands over to ops/cli.ts. Plain JavaScript without dependencies, and beside schemas/config/environment.ts the only reader of
// the environment, for that reason.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const nodeVersion = '24.21.0'
/** Platforms whose Node the registry carries as a package `node-<platform>-<arch>`. */
const packagedPlatforms = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64']

const checkout = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const dataFolder = resolve(checkout, dataOption() ?? (process.env.BUSBAR_DATA || '.busbar'))

function dataOption() {
  return process.argv.find((each) => each.startsWith('--busbar.data='))?.slice('--busbar.data='.length)
}

class Stop extends Error {}

const major = (version) => Number(version.replace(/^v/, '').split('.')[0])

async function main() {
  const node = major(process.version) >= major(nodeVersion) ? process.execPath : await bringNode()
  if (!dependenciesInstalled()) await underLock('install', () => bringDependencies(node))
  if (process.env.npm_lifecycle_event !== undefined) followNpm()
  if (node === process.execPath) await import('./cli.ts')
  else handOver(node)
}

function nodeFolder() {
  return join(dataFolder, 'node', 'node_modules', `node-${process.platform}-${process.arch}`, 'bin')
}

function nodeInstalled() {
  const manifest = join(nodeFolder(), '..', 'package.json')
  return existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version === nodeVersion
}

async function bringNode() {
  const platform = `${process.platform}-${process.arch}`
  if (!packagedPlatforms.includes(platform)) {
    throw new Stop(
      `Busbar needs Node ${major(nodeVersion)} or newer, this is ${process.version}: install it from https://nodejs.org/en/download.`,
    )
  }
  if (!nodeInstalled()) await underLock('node', () => installNode(platform))
  return join(nodeFolder(), 'node')
}

/** Installed aside and then moved: a fetch that was cut off leaves no half of a Node. */
async function installNode(platform) {
  if (nodeInstalled()) return
  const aside = join(dataFolder, 'node.new')
  rmSync(aside, { recursive: true, force: true })
  mkdirSync(aside, { recursive: true })
  writeFileSync(join(aside, 'package.json'), '{"private":true}\n')
  const options = ['--no-package-lock', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
  await step(`fetching Node ${nodeVersion} (the system has ${process.version})`, () =>
    npm(['install', '--prefix', aside, ...options, `node-${platform}@${nodeVersion}`], {
      cwd: aside,
      path: process.env.PATH,
    }),
  )
  rmSync(join(dataFolder, 'node'), { recursive: true, force: true })
  renameSync(aside, join(dataFolder, 'node'))
}

/** Compares the lockfile with the one npm keeps of what it installed; optional packages are for other machines. */
function dependenciesInstalled() {
  const kept = join(checkout, 'node_modules', '.package-lock.json')
  const wanted = join(checkout, 'package-lock.json')
  if (!existsSync(wanted)) return true
  if (!existsSync(kept)) return false
  const installed = JSON.parse(readFileSync(kept, 'utf8')).packages
  const packages = Object.entries(JSON.parse(readFileSync(wanted, 'utf8')).packages)
  return packages.every(([path, { version, optional, peer, devOptional }]) => {
    return path === '' || optional || peer || devOptional || installed[path]?.version === version
  })
}

async function bringDependencies(node) {
  if (dependenciesInstalled()) return
  const path = [dirname(node), process.env.PATH].join(delimiter)
  // `npm ci` refuses a lockfile that lacks the optional packages of other platforms, which not every registry mirror carries;
  // this takes the same versions with the same checksums, and leaves the lockfile alone.
  await step('installing the dependencies of the lockfile', () =>
    npm(['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: checkout, path }),
  )
}

/** Runs npm quietly; its output is shown when it fails. */
function npm(args, { cwd, path }) {
  // A configured nodedir names the headers of the system's Node, which native add-ons must not be built against.
  const env = { ...process.env, PATH: path, npm_config_nodedir: '', npm_config_update_notifier: 'false' }
  for (const name of Object.keys(env)) if (/^npm_(?!config_)/.test(name)) delete env[name]
  return new Promise((done, fail) => {
    const child = spawn('npm', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output = (output + chunk).slice(-4000)
      })
    }
    child.once('error', () => fail(new Stop('npm is not on PATH: it comes with Node, https://nodejs.org/en/download.')))
    child.once('exit', (code) => {
      if (code === 0) done()
      else fail(new Stop(`npm ${args[0]} failed:\n${output.trim()}`))
    })
  })
}

async function step(what, work) {
  const start = Date.now()
  const seconds = () => `${Math.round((Date.now() - start) / 1000)} s`
  process.stderr.write(`busbar: ${what} ...\n`)
  const pulse = setInterval(() => process.stderr.write(`busbar: ${what}: ${seconds()} so far\n`), 10_000)
  try {
    await work()
    process.stderr.write(`busbar: ${what}: done in ${seconds()}\n`)
  } finally {
    clearInterval(pulse)
  }
}

/** One start at a time fetches; the others wait for it. A lock whose holder is gone is taken over. */
async function underLock(name, work) {
  mkdirSync(dataFolder, { recursive: true })
  const lock = join(dataFolder, `${name}.lock`)
  for (let told = false; ; told = true) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' })
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
      if (!alive(lock)) rmSync(lock, { force: true })
      else if (!told) process.stderr.write(`busbar: waiting for another start that is fetching (${lock})\n`)
      await new Promise((again) => setTimeout(again, 300))
    }
  }
  try {
    await work()
  } finally {
    rmSync(lock, { force: true })
  }
}

function alive(lock) {
  try {
    const holder = Number(readFileSync(lock, 'utf8'))
    // An empty file was made this instant: its holder is about to write its number.
    return holder === 0 || process.kill(holder, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** Under npm (`npm start`) we end with it, also when it was killed and could not tell us. */
function followNpm() {
  const npmProcess = process.ppid
  setInterval(() => {
    if (process.ppid !== npmProcess) process.kill(process.pid, 'SIGTERM')
  }, 1000).unref()
}

/** The channel tells the child when this process dies without a goodbye, so that nothing is left running. */
function handOver(node) {
  const env = { ...process.env, PATH: [dirname(node), process.env.PATH].join(delimiter) }
  const args = [join(checkout, 'ops', 'cli.ts'), ...process.argv.slice(2)]
  const child = spawn(node, args, { stdio: ['inherit', 'inherit', 'inherit', 'ipc'], env })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => child.kill(signal))
  if (process.channel) process.once('disconnect', () => child.kill('SIGTERM'))
  child.once('error', (error) => {
    process.stderr.write(`busbar: ${node} does not run here: ${error.message}\n`)
    process.exit(1)
  })
  child.once('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)))
}

main().catch((error) => {
  const plain = error instanceof Stop || typeof error.code === 'string'
  process.stderr.write(`busbar: ${plain ? error.message : error.stack}\n`)
  process.exit(1)
})
