const tracks = 3503

/** One question put to all sides. Documents are constant and take variables, so that every side may keep what it makes of them. */
export interface GraphqlCase {
  readonly name: string
  readonly ours: string
  readonly postgraphile: string
  readonly variables: (n: number) => Readonly<Record<string, unknown>>
  /** The same data by REST, below the base path; null where REST is measured elsewhere. */
  readonly rest: ((n: number) => string) | null
}

const columns = 'track_id name composer milliseconds bytes unit_price album_id genre_id'
const peerColumns = 'trackId name composer milliseconds bytes unitPrice albumId genreId'

export const graphqlCases: readonly GraphqlCase[] = [
  {
    name: 'by key',
    ours: `query ($id: Int!) { publicTrack(where: { track_id: { eq: $id } }) { ${columns} } }`,
    postgraphile: `query ($id: Int!) { trackByTrackId(trackId: $id) { ${peerColumns} } }`,
    variables: (n) => ({ id: 1 + (n % tracks) }),
    rest: (n) => `/track/${1 + (n % tracks)}`,
  },
  {
    name: 'list of 100',
    ours: `query ($offset: Int!) { publicTrack(limit: 100, offset: $offset, orderBy: [{ track_id: ASC }]) { ${columns} } }`,
    postgraphile: `query ($offset: Int!) { allTracks(first: 100, offset: $offset, orderBy: [TRACK_ID_ASC]) { nodes { ${peerColumns} } } }`,
    variables: (n) => ({ offset: n % 3000 }),
    rest: (n) => `/track?limit=100&offset=${n % 3000}&orderBy=track_id`,
  },
  {
    name: 'three levels: 10 albums, their tracks, the genre of each',
    ours: `query ($offset: Int!) { publicAlbum(limit: 10, offset: $offset, orderBy: [{ album_id: ASC }]) {
      album_id title publicArtist { artist_id name } publicTrack { track_id name milliseconds publicGenre { genre_id name } } } }`,
    postgraphile: `query ($offset: Int!) { allAlbums(first: 10, offset: $offset, orderBy: [ALBUM_ID_ASC]) { nodes {
      albumId title artistByArtistId { artistId name }
      tracksByAlbumId { nodes { trackId name milliseconds genreByGenreId { genreId name } } } } } }`,
    variables: (n) => ({ offset: n % 300 }),
    rest: (n) =>
      `/album?limit=10&offset=${n % 300}&orderBy=album_id&select=album_id,title&expand=artist(select:artist_id,name),track(select:track_id,name,milliseconds,expand:genre(select:genre_id,name))`,
  },
  {
    name: 'aggregate of 140 rows',
    ours: `query ($genre: Int!) { publicTrackAggregate(where: { genre_id: { eq: $genre } }) {
      count sum { milliseconds } avg { milliseconds } max { unit_price } } }`,
    postgraphile: `query ($genre: Int!) { allTracks(condition: { genreId: $genre }) {
      totalCount aggregates { sum { milliseconds } average { milliseconds } max { unitPrice } } } }`,
    variables: (n) => ({ genre: 1 + (n % 25) }),
    rest: null,
  },
  {
    name: 'mutation',
    ours: `mutation ($track: Int!, $listener: String!) { createPublicPlay(input: { track_id: $track, listener: $listener }) {
      play_id track_id listener played_at } }`,
    postgraphile: `mutation ($track: Int!, $listener: String!) { createPlay(input: { play: { trackId: $track, listener: $listener } }) {
      play { playId trackId listener playedAt } } }`,
    variables: (n) => ({ track: 1 + (n % tracks), listener: `listener ${n}` }),
    rest: null,
  },
]
