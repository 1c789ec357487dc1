import { SourceMap } from 'node:module'
import { LRUCache } from 'lru-cache'
import { PREFIX_COLUMNS, PROGRAM_FILE } from './sandbox/program.ts'

const maxMapBytes = 8 * 1024 * 1024
const maxFrames = 50
const place = new RegExp(`\\b${PROGRAM_FILE.replace('.', '[.]')}:(\\d+):(\\d+)`)

/** A stack of compiled code in terms of the source it was compiled from; frames that are not the function's own are left out. */
export function mapStack(stack: string, sourceMap: string | null): string {
  const map = sourceMap === null || sourceMap.length > maxMapBytes ? null : readMap(sourceMap)
  const lines = stack.split('\n')
  const firstFrame = lines.findIndex(isFrame)
  const message = firstFrame < 0 ? lines : lines.slice(0, firstFrame)
  const frames = firstFrame < 0 ? [] : lines.slice(firstFrame).filter((line) => isFrame(line) && place.test(line))
  return [...message, ...frames.slice(0, maxFrames).map((frame) => mapFrame(frame, map))].join('\n')
}

const isFrame = (line: string) => /^ {4}at /.test(line)

function mapFrame(frame: string, map: SourceMap | null): string {
  return frame.replace(new RegExp(place, 'g'), (whole, lineText: string, columnText: string) => {
    const line = Number(lineText)
    const column = Number(columnText) - (line === 1 ? PREFIX_COLUMNS : 0)
    const entry = map?.findEntry(line - 1, Math.max(0, column - 1))
    if (entry === undefined || !('originalLine' in entry))
      return map === null ? whole : `${PROGRAM_FILE}:${line}:${column}`
    return `${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
  })
}

/** By their JSON; in memory they are some twenty times as large. */
const read = new LRUCache<string, SourceMap>({ maxSize: 1024 * 1024, sizeCalculation: (_, json) => json.length })
const largeChars = 64 * 1024
/** Part of this process's time that the reading of large maps may take: it runs the calls of all functions. */
const readingShare = 0.05
let largeAgainAt = 0

/** Null for what is no map, and for a large one shortly after another. */
function readMap(json: string): SourceMap | null {
  const known = read.get(json)
  if (known !== undefined) return known
  const from = performance.now()
  if (json.length > largeChars && from < largeAgainAt) return null
  try {
    const map = new SourceMap(JSON.parse(json))
    read.set(json, map)
    return map
  } catch {
    return null
  } finally {
    const now = performance.now()
    if (json.length > largeChars) largeAgainAt = now + (now - from) / readingShare
  }
}
