// What plugins of the users' own import as `busbar/plugin`.
export { Type } from 'typebox'
export { pluginProblems } from './check-plugin.ts'
export { defineControl, definePlugin, type Plugin, TaskFailure, type TaskRun } from './plugin.ts'
export { tryPlugin } from './try-plugin.ts'
