import { defineApiPlugin, given, only, record, secret, text, whole } from './api-plugin.ts'

const admin = '/admin/api/2025-10'

/** Source: https://shopify.dev/docs/api/admin-rest */
export const shopify = defineApiPlugin({
  id: 'saas.shopify',
  name: 'Shopify',
  description: 'Orders, products and stock of a Shopify shop, or any query of its GraphQL Admin API.',
  needs: 'An Admin API access token (https://shopify.dev/docs/api/admin)',
  baseUrl: null,
  baseUrlExample: 'https://example.myshopify.com',
  credentials: { accessToken: secret('Admin API access token', 'SHOPIFY_TOKEN') },
  headers: ({ accessToken }) => ({ 'X-Shopify-Access-Token': String(accessToken) }),
  fields: {
    id: text('Id of the order or product', '450789469'),
    status: text('`open`, `closed`, `cancelled` or `any`', 'any'),
    limit: whole('How many, up to 250', 50),
    product: record('The product', { title: 'Hat', status: 'draft' }),
    location_id: whole('Id of the location', 655441491),
    inventory_item_id: whole('Id of the inventory item', 808950810),
    available: whole('How many there are', 42),
    query: text('A GraphQL document', '{ shop { name } }'),
    variables: record('Its variables', {}),
  },
  operations: {
    listOrders: {
      title: 'Lists orders',
      method: 'GET',
      path: `${admin}/orders.json`,
      required: [],
      query: { status: 'status', limit: 'limit' },
    },
    getOrder: { title: 'Reads an order', method: 'GET', path: `${admin}/orders/{id}.json`, required: ['id'] },
    createProduct: {
      title: 'Creates a product',
      method: 'POST',
      path: `${admin}/products.json`,
      required: ['product'],
      body: (input) => only(input, ['product']),
    },
    updateProduct: {
      title: 'Changes a product',
      method: 'PUT',
      path: `${admin}/products/{id}.json`,
      required: ['id', 'product'],
      body: (input) => only(input, ['product']),
    },
    setInventory: {
      title: 'Sets how many there are at a location',
      method: 'POST',
      path: `${admin}/inventory_levels/set.json`,
      required: ['location_id', 'inventory_item_id', 'available'],
      body: (input) => only(input, ['location_id', 'inventory_item_id', 'available']),
    },
    graphql: {
      title: 'Sends a GraphQL document',
      method: 'POST',
      path: `${admin}/graphql.json`,
      required: ['query'],
      body: ({ query, variables }) => given({ query, variables }),
    },
  },
  example: `
status: any
accessToken: \${SHOPIFY_TOKEN}
baseUrl: https://example.myshopify.com
`,
})
