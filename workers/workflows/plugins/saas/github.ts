import { defineApiPlugin, flag, only, record, secret, text, texts, whole } from './api-plugin.ts'

const repository = '/repos/{owner}/{repo}'

/** Source: https://docs.github.com/rest */
export const github = defineApiPlugin({
  id: 'saas.github',
  name: 'GitHub',
  description: 'Repositories, issues, comments, releases and workflow runs of GitHub.',
  needs: 'A token with access to the repository (https://docs.github.com/rest)',
  baseUrl: 'https://api.github.com',
  baseUrlExample: 'https://github.example.com/api/v3',
  credentials: { token: secret('A personal access token, or one of an app', 'GITHUB_TOKEN') },
  headers: ({ token }) => ({
    Accept: 'application/vnd.github+json',
    Authorization: `Bearer ${token}`,
    'X-GitHub-Api-Version': '2022-11-28',
  }),
  fields: {
    owner: text('Who the repository belongs to', 'octocat'),
    repo: text('Name of the repository', 'hello-world'),
    number: whole('Number of the issue or pull request', 7),
    title: text('Title of the issue', 'It is broken'),
    body: text('Text, Markdown', 'Since **yesterday**'),
    state: text('`open` or `closed`; of a list also `all`', 'closed'),
    labels: texts('Labels of the issue', ['bug']),
    assignees: texts('Users the issue is assigned to', ['octocat']),
    per_page: whole('Issues on a page, up to 100', 50),
    page: whole('Which page, from 1', 1),
    tag_name: text('Tag of the release', 'v1.0.0'),
    name: text('Name of the release', 'First one'),
    draft: flag('Whether the release is a draft'),
    prerelease: flag('Whether it is a prerelease'),
    workflow: text('File name or id of the workflow', 'build.yml'),
    ref: text('Branch or tag that the workflow runs on', 'main'),
    inputs: record('Inputs of the workflow', { target: 'production' }),
  },
  operations: {
    createIssue: {
      title: 'Opens an issue',
      method: 'POST',
      path: `${repository}/issues`,
      required: ['owner', 'repo', 'title'],
      body: (input) => only(input, ['title', 'body', 'labels', 'assignees']),
    },
    updateIssue: {
      title: 'Changes an issue',
      method: 'PATCH',
      path: `${repository}/issues/{number}`,
      required: ['owner', 'repo', 'number'],
      body: (input) => only(input, ['title', 'body', 'state', 'labels', 'assignees']),
    },
    listIssues: {
      title: 'Lists issues',
      method: 'GET',
      path: `${repository}/issues`,
      required: ['owner', 'repo'],
      query: { state: 'state', labels: 'labels', per_page: 'per_page', page: 'page' },
    },
    addComment: {
      title: 'Comments an issue or pull request',
      method: 'POST',
      path: `${repository}/issues/{number}/comments`,
      required: ['owner', 'repo', 'number', 'body'],
      body: (input) => only(input, ['body']),
    },
    getRepository: {
      title: 'Reads a repository',
      method: 'GET',
      path: repository,
      required: ['owner', 'repo'],
    },
    createRelease: {
      title: 'Makes a release',
      method: 'POST',
      path: `${repository}/releases`,
      required: ['owner', 'repo', 'tag_name'],
      body: (input) => only(input, ['tag_name', 'name', 'body', 'draft', 'prerelease']),
    },
    dispatchWorkflow: {
      title: 'Runs a workflow',
      method: 'POST',
      path: `${repository}/actions/workflows/{workflow}/dispatches`,
      required: ['owner', 'repo', 'workflow', 'ref'],
      body: (input) => only(input, ['ref', 'inputs']),
    },
  },
  example: `
owner: octocat
repo: hello-world
title: It is broken
token: \${GITHUB_TOKEN}
`,
})
