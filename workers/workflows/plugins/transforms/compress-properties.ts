import { type Static, Type } from 'typebox'
import { contentProperties, maxFileBytes } from '../content.ts'

/** How a picture is to become. */
const ImageSettings = Type.Object(
  {
    width: Type.Optional(Type.Integer({ description: 'Pixels', minimum: 1, maximum: 16_384, examples: [320] })),
    height: Type.Optional(Type.Integer({ description: 'Pixels', minimum: 1, maximum: 16_384, examples: [200] })),
    fit: Type.Enum(['inside', 'cover', 'contain', 'fill'], {
      description:
        'How it gets that size: not larger than it and than before, covering it and cut, within it and with a border, or stretched',
      default: 'inside',
      examples: ['cover'],
    }),
    format: Type.Optional(
      Type.Enum(['jpeg', 'png', 'webp', 'avif', 'gif', 'tiff'], {
        description: 'Without one it stays what it is; what is read besides (SVG, HEIF) becomes PNG',
        examples: ['webp'],
      }),
    ),
    quality: Type.Optional(
      Type.Integer({
        description: 'What is usual for the format by default',
        minimum: 1,
        maximum: 100,
        examples: [80],
      }),
    ),
  },
  {
    description: 'Of the operation image: size and format',
    default: {},
    additionalProperties: false,
    examples: [{ width: 320, format: 'webp' }],
  },
)

export const CompressInput = Type.Object(
  {
    operation: Type.Enum(['pack', 'unpack', 'image'], {
      description: '`pack` a content or files, `unpack` what was packed, or give an `image` another size or format',
      default: 'pack',
      examples: ['unpack'],
    }),
    format: Type.Enum(['auto', 'gzip', 'deflate', 'brotli', 'zstd', 'zip', 'tar', 'tar.gz'], {
      description:
        'zip, tar and tar.gz hold files, the others one content. `auto`: gzip or, with `files`, zip; when unpacking, what the bytes look like (brotli has to be named)',
      default: 'auto',
      examples: ['zip'],
    }),
    ...contentProperties('What to pack or unpack', 'a long text'),
    textEncoding: Type.Enum(['utf-8', 'base64'], {
      description: 'Whether `text` is one, or bytes in base64',
      default: 'utf-8',
      examples: ['base64'],
    }),
    files: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: Type.String({ description: 'Path in the archive', minLength: 1, examples: ['reports/1.csv'] }),
            ...contentProperties('What is in it', 'id\n1\n'),
          },
          { additionalProperties: false },
        ),
        { description: 'The files to pack', maxItems: 10_000, examples: [[{ name: 'a.txt', text: 'a' }]] },
      ),
    ),
    level: Type.Optional(
      Type.Integer({
        description: 'How hard to try: 0 to 9, brotli to 11, zstd to 19; what is usual for the format by default',
        minimum: 0,
        maximum: 19,
        examples: [9],
      }),
    ),
    image: ImageSettings,
    as: Type.Enum(['file', 'text', 'base64'], {
      description: 'How to give what comes out: as files, as texts, or as texts of its bytes in base64',
      default: 'file',
      examples: ['base64'],
    }),
    maxBytes: Type.Integer({
      description: 'More bytes than this, once unpacked, fail the task',
      default: maxFileBytes,
      minimum: 1,
      maximum: 256 * 1024 ** 2,
      examples: [1_000_000],
    }),
    maxEntries: Type.Integer({
      description: 'More entries than this in an archive fail the task',
      default: 1_000,
      minimum: 1,
      maximum: 10_000,
      examples: [10],
    }),
  },
  { additionalProperties: false },
)

export type CompressInput = Static<typeof CompressInput>

export const CompressOutput = Type.Object({
  format: Type.String({ description: 'How it is or was packed, or the format of the picture', examples: ['gzip'] }),
  text: Type.Optional(Type.String({ description: 'What came out, as a text or as base64', examples: ['a long text'] })),
  uri: Type.Optional(Type.String({ description: 'The file that came out', examples: ['busbar:///files/3q2-7w'] })),
  sizeBytes: Type.Integer({ description: 'Size of what came out', examples: [11] }),
  width: Type.Optional(Type.Integer({ description: 'Of the picture, pixels', examples: [320] })),
  height: Type.Optional(Type.Integer({ description: 'Of the picture, pixels', examples: [200] })),
  files: Type.Optional(
    Type.Array(
      Type.Object({
        name: Type.String({ description: 'Path in the archive', examples: ['a.txt'] }),
        text: Type.Optional(Type.String({ description: 'What is in it', examples: ['a'] })),
        uri: Type.Optional(Type.String({ description: 'Its file', examples: ['busbar:///files/3q2-7w'] })),
        sizeBytes: Type.Integer({ description: 'Its size', examples: [1] }),
      }),
      { description: 'The files of an archive', examples: [[{ name: 'a.txt', text: 'a', sizeBytes: 1 }]] },
    ),
  ),
})
