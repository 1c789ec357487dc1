/** A wrong value or an unknown key: one line that names key, source and reason, and never a secret. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}
