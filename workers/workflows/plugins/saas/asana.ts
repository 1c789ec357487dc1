import { defineApiPlugin, only, secret, text, texts } from './api-plugin.ts'

const taskFields = ['name', 'notes', 'assignee', 'due_on', 'projects', 'workspace', 'parent'] as const

/** Source: https://developers.asana.com/reference/rest-api-reference */
export const asana = defineApiPlugin({
  id: 'saas.asana',
  name: 'Asana',
  description: 'Tasks and comments of Asana.',
  needs: 'A personal access token (https://developers.asana.com/reference/rest-api-reference)',
  baseUrl: 'https://app.asana.com/api/1.0',
  baseUrlExample: 'https://app.asana.com/api/1.0',
  credentials: { token: secret('Personal access token', 'ASANA_TOKEN') },
  headers: ({ token }) => ({ Authorization: `Bearer ${token}` }),
  fields: {
    task: text('Id of the task', '1204000000000001'),
    name: text('Title of the task', 'Renew the certificate'),
    notes: text('Text of the task', 'It ends on Friday.'),
    assignee: text('Id or e-mail address, or `me`', 'me'),
    due_on: text('Day it is due', '2027-01-31'),
    projects: texts('Ids of projects', ['1204000000000002']),
    project: text('Id of the project whose tasks are listed', '1204000000000002'),
    workspace: text('Id of the workspace', '1204000000000003'),
    parent: text('Id of the task it is a part of', '1204000000000004'),
    completed: { ...text('Whether it is done', 'true'), type: 'boolean', examples: [true] },
    comment: text('Text of the comment', 'Done.'),
  },
  operations: {
    createTask: {
      title: 'Creates a task',
      method: 'POST',
      path: '/tasks',
      required: ['name'],
      body: (input) => ({ data: only(input, taskFields) }),
    },
    getTask: { title: 'Reads a task', method: 'GET', path: '/tasks/{task}', required: ['task'] },
    updateTask: {
      title: 'Changes a task',
      method: 'PUT',
      path: '/tasks/{task}',
      required: ['task'],
      body: (input) => ({ data: only(input, ['name', 'notes', 'assignee', 'due_on', 'completed']) }),
    },
    addComment: {
      title: 'Comments a task',
      method: 'POST',
      path: '/tasks/{task}/stories',
      required: ['task', 'comment'],
      body: ({ comment }) => ({ data: { text: comment } }),
    },
    listTasks: {
      title: 'Lists tasks',
      method: 'GET',
      path: '/tasks',
      required: ['project'],
      query: { project: 'project' },
    },
  },
  example: `
name: Renew the certificate
projects: ['1204000000000002']
token: \${ASANA_TOKEN}
`,
})
