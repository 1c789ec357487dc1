import { defineApiPlugin, only, record, secret, text, whole } from './api-plugin.ts'

/** Source: https://docs.stripe.com/api */
export const stripe = defineApiPlugin({
  id: 'saas.stripe',
  name: 'Stripe',
  description: 'Customers, payments and refunds of Stripe; a task that runs again charges nobody twice.',
  needs: 'A secret key (https://docs.stripe.com/api)',
  baseUrl: 'https://api.stripe.com',
  baseUrlExample: 'https://api.stripe.com',
  idempotent: true,
  encoding: 'form',
  credentials: { secretKey: secret('Secret key of the account', 'STRIPE_KEY') },
  headers: ({ secretKey }, key) => ({ Authorization: `Bearer ${secretKey}`, 'Idempotency-Key': key }),
  fields: {
    id: text('Id of the customer or payment intent', 'cus_NffrFeUfNV2Hib'),
    email: text('E-mail address of the customer', 'ann@example.com'),
    name: text('Name of the customer', 'Ann'),
    description: text('What it is for', 'Order 6735'),
    metadata: record('Texts of your own', { order: '6735' }),
    amount: whole('In the smallest unit of the currency', 1099),
    currency: text('Three letters', 'eur'),
    customer: text('Id of the customer', 'cus_NffrFeUfNV2Hib'),
    payment_intent: text('Id of the payment that is given back', 'pi_3MtwBwLkdIwHu7ix28a3tqPa'),
    reason: text('`duplicate`, `fraudulent` or `requested_by_customer`', 'requested_by_customer'),
    limit: whole('How many, up to 100', 10),
    starting_after: text('Id of the last one of the page before', 'ch_3MmlLrLkdIwHu7ix0snN0B15'),
  },
  operations: {
    createCustomer: {
      title: 'Creates a customer',
      method: 'POST',
      path: '/v1/customers',
      required: [],
      body: (input) => only(input, ['email', 'name', 'description', 'metadata']),
    },
    getCustomer: { title: 'Reads a customer', method: 'GET', path: '/v1/customers/{id}', required: ['id'] },
    createPaymentIntent: {
      title: 'Begins a payment',
      method: 'POST',
      path: '/v1/payment_intents',
      required: ['amount', 'currency'],
      body: (input) => only(input, ['amount', 'currency', 'customer', 'description', 'metadata']),
    },
    getPaymentIntent: { title: 'Reads a payment', method: 'GET', path: '/v1/payment_intents/{id}', required: ['id'] },
    createRefund: {
      title: 'Gives a payment back',
      method: 'POST',
      path: '/v1/refunds',
      required: ['payment_intent'],
      body: (input) => only(input, ['payment_intent', 'amount', 'reason', 'metadata']),
    },
    listCharges: {
      title: 'Lists charges',
      method: 'GET',
      path: '/v1/charges',
      required: [],
      query: { customer: 'customer', limit: 'limit', starting_after: 'starting_after' },
    },
  },
  example: `
email: ann@example.com
secretKey: \${STRIPE_KEY}
`,
})
