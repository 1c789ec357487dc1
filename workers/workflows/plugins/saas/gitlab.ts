import { defineApiPlugin, list, only, secret, text, texts, whole } from './api-plugin.ts'

/** Source: https://docs.gitlab.com/api/rest/ */
export const gitlab = defineApiPlugin({
  id: 'saas.gitlab',
  name: 'GitLab',
  description: 'Issues, notes, merge requests and pipelines of GitLab.',
  needs: 'An access token (https://docs.gitlab.com/api/rest/)',
  baseUrl: 'https://gitlab.com/api/v4',
  baseUrlExample: 'https://gitlab.example.com/api/v4',
  credentials: { token: secret('Personal, group or project access token', 'GITLAB_TOKEN') },
  headers: ({ token }) => ({ 'PRIVATE-TOKEN': String(token) }),
  fields: {
    project: text('Id of the project, or its path', 'group/project'),
    iid: whole('Number of the issue or merge request in the project', 7),
    title: text('Title', 'It is broken'),
    description: text('Text, Markdown', 'Since **yesterday**'),
    labels: texts('Labels', ['bug']),
    state: text('`opened`, `closed` or `all`', 'opened'),
    state_event: text('`close` or `reopen`', 'close'),
    body: text('Text of the note', 'Done.'),
    source_branch: text('Branch to merge', 'feature'),
    target_branch: text('Branch to merge into', 'main'),
    ref: text('Branch or tag that the pipeline runs on', 'main'),
    variables: list('Variables of the pipeline', [{ key: 'TARGET', value: 'production' }]),
    per_page: whole('How many on a page, up to 100', 50),
    page: whole('Which page, from 1', 1),
  },
  operations: {
    createIssue: {
      title: 'Opens an issue',
      method: 'POST',
      path: '/projects/{project}/issues',
      required: ['project', 'title'],
      body: (input) => ({ ...only(input, ['title', 'description']), ...labels(input.labels) }),
    },
    updateIssue: {
      title: 'Changes an issue',
      method: 'PUT',
      path: '/projects/{project}/issues/{iid}',
      required: ['project', 'iid'],
      body: (input) => ({ ...only(input, ['title', 'description', 'state_event']), ...labels(input.labels) }),
    },
    listIssues: {
      title: 'Lists issues',
      method: 'GET',
      path: '/projects/{project}/issues',
      required: ['project'],
      query: { state: 'state', labels: 'labels', per_page: 'per_page', page: 'page' },
    },
    addNote: {
      title: 'Comments an issue',
      method: 'POST',
      path: '/projects/{project}/issues/{iid}/notes',
      required: ['project', 'iid', 'body'],
      body: (input) => only(input, ['body']),
    },
    createMergeRequest: {
      title: 'Opens a merge request',
      method: 'POST',
      path: '/projects/{project}/merge_requests',
      required: ['project', 'source_branch', 'target_branch', 'title'],
      body: (input) => only(input, ['source_branch', 'target_branch', 'title', 'description']),
    },
    runPipeline: {
      title: 'Runs a pipeline',
      method: 'POST',
      path: '/projects/{project}/pipeline',
      required: ['project', 'ref'],
      body: (input) => only(input, ['ref', 'variables']),
    },
  },
  example: `
project: group/project
title: It is broken
token: \${GITLAB_TOKEN}
`,
})

function labels(value: unknown): { readonly labels?: string } {
  return Array.isArray(value) ? { labels: value.join(',') } : {}
}
