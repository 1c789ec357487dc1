/** A file system in memory, as the git library wants one: what a server sends can lead nowhere else, and nothing is left behind. */
export class GitFolder {
  readonly #files = new Map<string, Buffer>()
  readonly #folders = new Set(['/'])

  /** As the library asks for it. */
  readonly promises = {
    readFile: async (path: string, options?: { encoding?: BufferEncoding } | BufferEncoding) => {
      const bytes = this.#files.get(clean(path))
      if (bytes === undefined) throw failure(this.#folders.has(clean(path)) ? 'EISDIR' : 'ENOENT', path)
      const encoding = typeof options === 'string' ? options : options?.encoding
      return encoding === undefined ? bytes : bytes.toString(encoding)
    },
    writeFile: async (path: string, content: Uint8Array | string) => {
      if (!this.#folders.has(above(clean(path)))) throw failure('ENOENT', path)
      this.#files.set(clean(path), Buffer.from(content as Uint8Array))
    },
    mkdir: async (path: string) => {
      if (this.#folders.has(clean(path))) throw failure('EEXIST', path)
      if (!this.#folders.has(above(clean(path)))) throw failure('ENOENT', path)
      this.#folders.add(clean(path))
    },
    unlink: async (path: string) => {
      if (!this.#files.delete(clean(path))) throw failure('ENOENT', path)
    },
    rmdir: async (path: string) => {
      if (!this.#folders.delete(clean(path))) throw failure('ENOENT', path)
    },
    readdir: async (path: string) => {
      const folder = clean(path)
      if (!this.#folders.has(folder)) throw failure(this.#files.has(folder) ? 'ENOTDIR' : 'ENOENT', path)
      const all = [...this.#files.keys(), ...this.#folders]
      return all
        .filter((each) => each !== '/' && above(each) === folder)
        .map((each) => each.slice(each.lastIndexOf('/') + 1))
    },
    stat: async (path: string) => this.#status(path),
    lstat: async (path: string) => this.#status(path),
    readlink: async (path: string) => {
      throw failure('EINVAL', path)
    },
    symlink: async (_target: string, path: string) => {
      throw failure('EPERM', path)
    },
  }

  #status(path: string) {
    const bytes = this.#files.get(clean(path))
    const isFolder = this.#folders.has(clean(path))
    if (bytes === undefined && !isFolder) throw failure('ENOENT', path)
    return {
      isFile: () => !isFolder,
      isDirectory: () => isFolder,
      isSymbolicLink: () => false,
      mode: isFolder ? 0o40755 : 0o100644,
      size: bytes?.length ?? 0,
      mtimeMs: 0,
      ctimeMs: 0,
      dev: 0,
      ino: 0,
      uid: 0,
      gid: 0,
    }
  }
}

function clean(path: string): string {
  const parts = path.split('/').filter((each) => each !== '' && each !== '.')
  return `/${parts.join('/')}`
}

function above(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}

function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code })
}
