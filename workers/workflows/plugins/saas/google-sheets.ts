import { defineApiPlugin, list, secret, text } from './api-plugin.ts'

const range = '/v4/spreadsheets/{spreadsheetId}/values/{range}'
const entered = { valueInputOption: 'valueInputOption' } as const

/** Source: https://developers.google.com/workspace/sheets/api/reference/rest/v4/spreadsheets.values */
export const googleSheets = defineApiPlugin({
  id: 'saas.googlesheets',
  name: 'Google Sheets',
  description: 'Cells of Google spreadsheets: read, write, append and clear ranges.',
  needs: 'An OAuth access token for the spreadsheet (https://developers.google.com/workspace/sheets/api)',
  baseUrl: 'https://sheets.googleapis.com',
  baseUrlExample: 'https://sheets.googleapis.com',
  credentials: { accessToken: secret('OAuth access token', 'GOOGLE_TOKEN') },
  headers: ({ accessToken }) => ({ Authorization: `Bearer ${accessToken}` }),
  fields: {
    spreadsheetId: text('Id of the spreadsheet', '1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms'),
    range: text('Range, A1 notation', 'Sheet1!A1:C10'),
    values: list('Rows of cells', [['Ann', 3]]),
    valueInputOption: text('`RAW`, or `USER_ENTERED` to have texts read as if typed', 'USER_ENTERED'),
    valueRenderOption: text('`FORMATTED_VALUE`, `UNFORMATTED_VALUE` or `FORMULA`', 'UNFORMATTED_VALUE'),
  },
  operations: {
    read: {
      title: 'Reads a range',
      method: 'GET',
      path: range,
      required: ['spreadsheetId', 'range'],
      query: { valueRenderOption: 'valueRenderOption' },
    },
    write: {
      title: 'Writes a range',
      method: 'PUT',
      path: range,
      required: ['spreadsheetId', 'range', 'values', 'valueInputOption'],
      query: entered,
      body: ({ values, range }) => ({ range, majorDimension: 'ROWS', values }),
    },
    append: {
      title: 'Appends rows below a table',
      method: 'POST',
      path: `${range}:append`,
      required: ['spreadsheetId', 'range', 'values', 'valueInputOption'],
      query: entered,
      body: ({ values, range }) => ({ range, majorDimension: 'ROWS', values }),
    },
    clear: {
      title: 'Clears a range',
      method: 'POST',
      path: `${range}:clear`,
      required: ['spreadsheetId', 'range'],
      body: () => ({}),
    },
  },
  example: `
spreadsheetId: 1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms
range: Sheet1!A1:C10
accessToken: \${GOOGLE_TOKEN}
`,
})
