import { defineApiPlugin, given, only, record, secret, text, whole } from './api-plugin.ts'

const issue = 'id identifier title url'

/** Source: https://linear.app/developers/graphql */
export const linear = defineApiPlugin({
  id: 'saas.linear',
  name: 'Linear',
  description: 'Issues and comments of Linear, or any query of its GraphQL API.',
  needs: 'A personal API key (https://linear.app/developers/graphql)',
  baseUrl: 'https://api.linear.app',
  baseUrlExample: 'https://api.linear.app',
  credentials: { apiKey: secret('The API key', 'LINEAR_KEY') },
  headers: ({ apiKey }) => ({ Authorization: String(apiKey) }),
  fields: {
    teamId: text('Id of the team', '9cfb482a-81e3-4154-b5b9-2c805e70a02d'),
    title: text('Title of the issue', 'It is broken'),
    description: text('Text of the issue, Markdown', 'Since **yesterday**'),
    priority: whole('0 none, 1 urgent, 2 high, 3 normal, 4 low', 2),
    assigneeId: text('Id of the user it is assigned to', '9cfb482a-81e3-4154-b5b9-2c805e70a02d'),
    stateId: text('Id of the state', '9cfb482a-81e3-4154-b5b9-2c805e70a02d'),
    id: text('Id of the issue', '9cfb482a-81e3-4154-b5b9-2c805e70a02d'),
    body: text('Text of the comment', 'Done.'),
    first: whole('How many issues', 50),
    filter: record('What an issue must have', { team: { key: { eq: 'OPS' } } }),
    query: text('A GraphQL document', 'query { viewer { id } }'),
    variables: record('Its variables', {}),
  },
  operations: {
    createIssue: {
      title: 'Creates an issue',
      method: 'POST',
      path: '/graphql',
      required: ['teamId', 'title'],
      body: (input) => ({
        query: `mutation($input: IssueCreateInput!) { issueCreate(input: $input) { success issue { ${issue} } } }`,
        variables: { input: only(input, ['teamId', 'title', 'description', 'priority', 'assigneeId', 'stateId']) },
      }),
    },
    updateIssue: {
      title: 'Changes an issue',
      method: 'POST',
      path: '/graphql',
      required: ['id'],
      body: (input) => ({
        query: `mutation($id: String!, $input: IssueUpdateInput!) { issueUpdate(id: $id, input: $input) { success issue { ${issue} } } }`,
        variables: {
          id: input.id,
          input: only(input, ['title', 'description', 'priority', 'assigneeId', 'stateId']),
        },
      }),
    },
    addComment: {
      title: 'Comments an issue',
      method: 'POST',
      path: '/graphql',
      required: ['id', 'body'],
      body: ({ id, body }) => ({
        query: 'mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success comment { id url } } }',
        variables: { input: { issueId: id, body } },
      }),
    },
    listIssues: {
      title: 'Lists issues',
      method: 'POST',
      path: '/graphql',
      required: [],
      body: ({ first, filter }) => ({
        query: `query($first: Int, $filter: IssueFilter) { issues(first: $first, filter: $filter) { nodes { ${issue} } } }`,
        variables: given({ first, filter }),
      }),
    },
    query: {
      title: 'Sends a GraphQL document',
      method: 'POST',
      path: '/graphql',
      required: ['query'],
      body: ({ query, variables }) => given({ query, variables }),
    },
  },
  example: `
teamId: 9cfb482a-81e3-4154-b5b9-2c805e70a02d
title: It is broken
apiKey: \${LINEAR_KEY}
`,
})
