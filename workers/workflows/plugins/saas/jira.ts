import { basic, defineApiPlugin, given, record, secret, text, texts, whole } from './api-plugin.ts'

/** Plain text as the service wants it. Source: https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/ */
function documentOf(value: unknown): unknown {
  if (value === undefined) return undefined
  const paragraphs = String(value).split(/\n{2,}/)
  return {
    type: 'doc',
    version: 1,
    content: paragraphs.map((each) => ({ type: 'paragraph', content: [{ type: 'text', text: each }] })),
  }
}

/** Source: https://developer.atlassian.com/cloud/jira/platform/rest/v3/ */
export const jira = defineApiPlugin({
  id: 'saas.jira',
  name: 'Jira',
  description: 'Issues of Jira Cloud: create, read, search, comment and move them.',
  needs: 'An API token of Atlassian (https://developer.atlassian.com/cloud/jira/platform/rest/v3/)',
  baseUrl: null,
  baseUrlExample: 'https://example.atlassian.net',
  credentials: {
    email: text('E-mail address of the account', 'ann@example.com'),
    token: secret('Its API token', 'JIRA_TOKEN'),
  },
  headers: ({ email, token }) => ({ Authorization: basic(email, token) }),
  fields: {
    project: text('Key of the project', 'OPS'),
    issueType: text('Name of the type', 'Task'),
    summary: text('Title of the issue', 'Renew the certificate'),
    description: text('Text of the issue; an empty line begins a paragraph', 'It ends on Friday.'),
    labels: texts('Labels', ['ops']),
    fields: record('Other fields, as the API names them', { priority: { name: 'High' } }),
    key: text('Key of the issue', 'OPS-7'),
    comment: text('Text of the comment', 'Done.'),
    transitionId: text('Id of the transition', '31'),
    jql: text('What to search for', 'project = OPS AND status = "To Do"'),
    maxResults: whole('Issues on a page', 50),
    nextPageToken: text('From the page before', 'abc'),
  },
  operations: {
    createIssue: {
      title: 'Creates an issue',
      method: 'POST',
      path: '/rest/api/3/issue',
      required: ['project', 'issueType', 'summary'],
      body: ({ project, issueType, summary, description, labels, fields }) => ({
        fields: given({
          project: { key: project },
          issuetype: { name: issueType },
          summary,
          description: documentOf(description),
          labels,
          ...(fields as object | undefined),
        }),
      }),
    },
    getIssue: { title: 'Reads an issue', method: 'GET', path: '/rest/api/3/issue/{key}', required: ['key'] },
    updateIssue: {
      title: 'Changes an issue',
      method: 'PUT',
      path: '/rest/api/3/issue/{key}',
      required: ['key'],
      body: ({ summary, description, labels, fields }) => ({
        fields: given({ summary, description: documentOf(description), labels, ...(fields as object | undefined) }),
      }),
    },
    addComment: {
      title: 'Comments an issue',
      method: 'POST',
      path: '/rest/api/3/issue/{key}/comment',
      required: ['key', 'comment'],
      body: ({ comment }) => ({ body: documentOf(comment) }),
    },
    transition: {
      title: 'Moves an issue to another status',
      method: 'POST',
      path: '/rest/api/3/issue/{key}/transitions',
      required: ['key', 'transitionId'],
      body: ({ transitionId }) => ({ transition: { id: transitionId } }),
    },
    search: {
      title: 'Searches issues',
      method: 'POST',
      path: '/rest/api/3/search/jql',
      required: ['jql'],
      body: ({ jql, maxResults, nextPageToken }) => given({ jql, maxResults, nextPageToken, fields: ['*navigable'] }),
    },
  },
  example: `
project: OPS
issueType: Task
summary: Renew the certificate
email: ann@example.com
token: \${JIRA_TOKEN}
baseUrl: https://example.atlassian.net
`,
})
