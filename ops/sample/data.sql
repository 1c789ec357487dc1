-- Invented data. The written part gives the small tables; the rest follows from the numbers by arithmetic alone, so that every
-- sample database is the same.

INSERT INTO language (code, name) VALUES
  ('de', 'German'), ('en', 'English'), ('es', 'Spanish'), ('fr', 'French'), ('ja', 'Japanese'), ('pt', 'Portuguese');

INSERT INTO genre (id, name, parent_id) VALUES
  (1, 'Fiction', NULL), (2, 'Documentary', NULL), (3, 'Comedy', 1), (4, 'Drama', 1), (5, 'Thriller', 1),
  (6, 'Science fiction', 1), (7, 'Slapstick', 3), (8, 'Heist', 5), (9, 'Nature', 2), (10, 'Music', 2);

INSERT INTO film (id, title, released, minutes, rating, price_per_day, genre_id, language_id, dubbed_language_id, tags, details)
SELECT
  n,
  (ARRAY['The Quiet', 'A Distant', 'Seven Days of', 'Beyond the', 'Return to the', 'The Last', 'Letters from a', 'Under the'])[1 + n % 8]
    || ' ' ||
  (ARRAY['Harbour', 'Lighthouse', 'Orchard', 'Station', 'Glacier', 'Carnival', 'Observatory', 'Vineyard', 'Tide', 'Cartographer', 'Museum', 'Signal', 'Winter', 'Bridge', 'Comet'])[1 + n % 15],
  date '1978-03-01' + n * 143,
  74 + (n * 37) % 96,
  (enum_range(NULL::film_rating))[1 + (n * 7) % 5],
  1.00 + ((n * 13) % 9) * 0.25,
  3 + (n * 5) % 8,
  1 + n % 6,
  CASE WHEN n % 3 = 0 THEN 1 + (n + 2) % 6 END,
  (ARRAY['{classic}', '{sea,slow}', '{family,colour}', '{}', '{night,city,rain}', '{classic,black-and-white}'])[1 + n % 6]::text[],
  CASE n % 4
    WHEN 0 THEN '{}'::jsonb
    WHEN 1 THEN jsonb_build_object('studio', 'Nordlicht', 'budget_million', n % 40)
    WHEN 2 THEN jsonb_build_object('studio', 'Casa Azul', 'awards', jsonb_build_array('Golden Reel'))
    ELSE jsonb_build_object('studio', 'Kitsune', 'budget_million', n % 25 + 0.5, 'awards', '[]'::jsonb)
  END
FROM generate_series(1, 120) AS n;

INSERT INTO actor (id, first_name, last_name, born)
SELECT
  n,
  (ARRAY['Ada', 'Bruno', 'Clara', 'Dario', 'Elif', 'Femi', 'Greta', 'Hiro'])[1 + n % 8],
  (ARRAY['Abara', 'Brandt', 'Castro', 'Duval', 'Eriksen', 'Fujita', 'Grimaldi'])[1 + n % 7],
  CASE WHEN n % 9 > 0 THEN date '1931-05-20' + n * 421 END
FROM generate_series(1, 48) AS n;

INSERT INTO film_actor (film_id, actor_id, role)
SELECT f, 1 + (f * 11 + k * 17) % 48, (ARRAY['lead', 'friend', 'rival', 'narrator'])[k]
FROM generate_series(1, 120) AS f, generate_series(1, 4) AS k
WHERE k <= 1 + f % 4;

INSERT INTO copy (film_id, number, bought, scratched)
SELECT f, k, date '2019-01-07' + f + k * 30, (f + k) % 13 = 0
FROM generate_series(1, 120) AS f, generate_series(1, 3) AS k
WHERE k <= 1 + f % 3;

INSERT INTO member (id, name, mail, joined, recommended_by, favourite_genre_id, balance)
SELECT
  n,
  (ARRAY['Anna', 'Bela', 'Chloe', 'Dev', 'Esra', 'Finn', 'Gita', 'Hugo', 'Ines', 'Jon'])[1 + n % 10]
    || ' ' || (ARRAY['Acker', 'Berg', 'Costa', 'Diaz', 'Egede', 'Falk'])[1 + n % 6],
  'member' || n || '@club.example',
  date '2019-02-01' + n * 19,
  CASE WHEN n > 5 AND n % 2 = 0 THEN n / 2 END,
  CASE WHEN n % 4 > 0 THEN 3 + n % 8 END,
  ((n * 29) % 50) * 0.75 - 5
FROM generate_series(1, 60) AS n;

INSERT INTO member_card (member_id, card, valid)
SELECT n, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, daterange(date '2019-02-01' + n * 19, date '2029-02-01' + n * 19)
FROM generate_series(1, 60) AS n
WHERE n % 5 > 0;

INSERT INTO loan (id, member_id, film_id, copy_number, taken_at, returned_at, state, paid)
SELECT
  n,
  1 + (n * 7) % 60,
  f,
  1 + n % (1 + f % 3),
  timestamptz '2024-01-02 17:30:00+00' + n * interval '19 hours',
  CASE WHEN n % 10 > 0 THEN timestamptz '2024-01-02 17:30:00+00' + n * interval '19 hours' + (1 + n % 6) * interval '1 day' END,
  CASE WHEN n % 10 > 0 THEN 'returned' WHEN n % 40 = 0 THEN 'lost' ELSE 'out' END::loan_state,
  CASE WHEN n % 10 > 0 THEN (1 + n % 6) * 1.50 END
FROM generate_series(1, 400) AS n, LATERAL (SELECT 1 + (n * 23) % 120 AS f) AS picked;

INSERT INTO review (member_id, film_id, stars, words, written_at)
SELECT
  1 + n % 60,
  1 + (n * 31 + n / 60) % 120,
  1 + (n * 3) % 5,
  CASE WHEN n % 3 > 0 THEN (ARRAY['Slow, and worth it.', 'Fell asleep twice.', 'The ending!', 'My third time.', 'Too loud for me.'])[1 + n % 5] END,
  timestamptz '2024-02-01 20:00:00+00' + n * interval '2 days'
FROM generate_series(1, 240) AS n;

-- The next row made by a client must not meet a number that is taken.
SELECT setval(pg_get_serial_sequence(name, 'id'), last)
FROM (VALUES ('genre', 10), ('film', 120), ('actor', 48), ('member', 60), ('loan', 400)) AS filled (name, last);

CREATE VIEW film_overview AS
SELECT f.id, f.title, f.released, g.name AS genre, l.name AS language, round(avg(r.stars), 2) AS stars, count(r.stars) AS reviews
FROM film f
JOIN genre g ON g.id = f.genre_id
JOIN language l ON l.id = f.language_id
LEFT JOIN review r ON r.film_id = f.id
GROUP BY f.id, g.name, l.name;
COMMENT ON VIEW film_overview IS 'Films with the names of genre and language, and what members think';

CREATE MATERIALIZED VIEW income_by_month AS
SELECT date_trunc('month', taken_at AT TIME ZONE 'UTC')::date AS month, count(*) AS loans, sum(paid) AS income
FROM loan
GROUP BY 1;
COMMENT ON MATERIALIZED VIEW income_by_month IS 'Refresh it with REFRESH MATERIALIZED VIEW income_by_month';
