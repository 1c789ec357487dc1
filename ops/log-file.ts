import { appendFileSync, existsSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

const sizeLimitBytes = 16 * 1024 * 1024

export interface LogFile {
  write(line: string): void
}

/** A file of lines that is kept under 16 MB: the one before stays as `<file>.1`. */
export function openLogFile(path: string): LogFile {
  mkdirSync(dirname(path), { recursive: true })
  let sizeBytes = existsSync(path) ? statSync(path).size : 0
  return {
    write(line) {
      if (sizeBytes > sizeLimitBytes) {
        renameSync(path, `${path}.1`)
        sizeBytes = 0
      }
      try {
        appendFileSync(path, `${line}\n`)
        sizeBytes += Buffer.byteLength(line) + 1
      } catch {
        // A full disk must not take the services down with their log.
      }
    },
  }
}
