import type { Plugin } from './plugin.ts'
import { anthropic } from './plugins/ai/anthropic.ts'
import { embeddings } from './plugins/ai/embeddings.ts'
import { gemini } from './plugins/ai/gemini.ts'
import { image } from './plugins/ai/image.ts'
import { ollama } from './plugins/ai/ollama.ts'
import { openai } from './plugins/ai/openai.ts'
import { approval } from './plugins/core/approval.ts'
import { fail } from './plugins/core/fail.ts'
import { foreach } from './plugins/core/foreach.ts'
import { http } from './plugins/core/http.ts'
import { choose } from './plugins/core/if.ts'
import { kv } from './plugins/core/kv.ts'
import { log } from './plugins/core/log.ts'
import { parallel } from './plugins/core/parallel.ts'
import { python } from './plugins/core/python.ts'
import { set } from './plugins/core/set.ts'
import { shell } from './plugins/core/shell.ts'
import { subflow } from './plugins/core/subflow.ts'
import { choice } from './plugins/core/switch.ts'
import { wait } from './plugins/core/wait.ts'
import { mongodb } from './plugins/databases/mongodb.ts'
import { mysql } from './plugins/databases/mysql.ts'
import { postgres } from './plugins/databases/postgres.ts'
import { redis } from './plugins/databases/redis.ts'
import { sqlite } from './plugins/databases/sqlite.ts'
import { flatten } from './plugins/flow-control/flatten.ts'
import { group } from './plugins/flow-control/group.ts'
import { limit } from './plugins/flow-control/limit.ts'
import { lookup } from './plugins/flow-control/lookup.ts'
import { map } from './plugins/flow-control/map.ts'
import { merge } from './plugins/flow-control/merge.ts'
import { reduce } from './plugins/flow-control/reduce.ts'
import { unique } from './plugins/flow-control/unique.ts'
import { whileLoop } from './plugins/flow-control/while.ts'
import { discord } from './plugins/protocol/discord.ts'
import { ftp } from './plugins/protocol/ftp.ts'
import { graphql } from './plugins/protocol/graphql.ts'
import { mqtt } from './plugins/protocol/mqtt.ts'
import { rss } from './plugins/protocol/rss.ts'
import { slack } from './plugins/protocol/slack.ts'
import { smtp } from './plugins/protocol/smtp.ts'
import { teams } from './plugins/protocol/teams.ts'
import { telegram } from './plugins/protocol/telegram.ts'
import { websocket } from './plugins/protocol/websocket.ts'
import { airtable } from './plugins/saas/airtable.ts'
import { asana } from './plugins/saas/asana.ts'
import { github } from './plugins/saas/github.ts'
import { gitlab } from './plugins/saas/gitlab.ts'
import { googleSheets } from './plugins/saas/google-sheets.ts'
import { hubspot } from './plugins/saas/hubspot.ts'
import { jira } from './plugins/saas/jira.ts'
import { linear } from './plugins/saas/linear.ts'
import { notion } from './plugins/saas/notion.ts'
import { pagerduty } from './plugins/saas/pagerduty.ts'
import { salesforce } from './plugins/saas/salesforce.ts'
import { sendgrid } from './plugins/saas/sendgrid.ts'
import { shopify } from './plugins/saas/shopify.ts'
import { stripe } from './plugins/saas/stripe.ts'
import { trello } from './plugins/saas/trello.ts'
import { twilio } from './plugins/saas/twilio.ts'
import { zendesk } from './plugins/saas/zendesk.ts'
import { aggregate } from './plugins/transforms/aggregate.ts'
import { base64 } from './plugins/transforms/base64.ts'
import { compress } from './plugins/transforms/compress.ts'
import { csv } from './plugins/transforms/csv.ts'
import { filter } from './plugins/transforms/filter.ts'
import { hash } from './plugins/transforms/hash.ts'
import { html } from './plugins/transforms/html.ts'
import { join } from './plugins/transforms/join.ts'
import { markdown } from './plugins/transforms/markdown.ts'
import { regex } from './plugins/transforms/regex.ts'
import { sort } from './plugins/transforms/sort.ts'
import { xml } from './plugins/transforms/xml.ts'
import { yaml } from './plugins/transforms/yaml.ts'
import { crypto } from './plugins/utility/crypto.ts'
import { datetime } from './plugins/utility/datetime.ts'
import { json } from './plugins/utility/json.ts'
import { math } from './plugins/utility/math.ts'
import { random } from './plugins/utility/random.ts'
import { string } from './plugins/utility/string.ts'
import { template } from './plugins/utility/template.ts'
import { url } from './plugins/utility/url.ts'
import { uuid } from './plugins/utility/uuid.ts'

/** The built-in plugins, in the order of the catalogue. A library that one needs is imported when it first runs. */
export const catalogue: readonly Plugin[] = [
  // Core
  http,
  shell,
  python,
  choose,
  choice,
  foreach,
  parallel,
  wait,
  subflow,
  approval,
  log,
  set,
  kv,
  fail,
  // Flow Control
  map,
  reduce,
  group,
  unique,
  flatten,
  lookup,
  limit,
  merge,
  whileLoop,
  // Transforms
  csv,
  xml,
  base64,
  hash,
  regex,
  filter,
  sort,
  yaml,
  html,
  markdown,
  aggregate,
  join,
  compress,
  // Databases
  postgres,
  mysql,
  sqlite,
  redis,
  mongodb,
  // Protocol
  slack,
  discord,
  telegram,
  smtp,
  graphql,
  rss,
  teams,
  ftp,
  mqtt,
  websocket,
  // SaaS
  github,
  jira,
  notion,
  stripe,
  hubspot,
  linear,
  gitlab,
  asana,
  trello,
  airtable,
  googleSheets,
  salesforce,
  zendesk,
  shopify,
  sendgrid,
  twilio,
  pagerduty,
  // AI
  openai,
  anthropic,
  gemini,
  ollama,
  embeddings,
  image,
  // Utility
  uuid,
  random,
  json,
  url,
  template,
  math,
  string,
  datetime,
  crypto,
]
