-- The tables as version 1 made them, in schema older.
CREATE TABLE older.version (version integer NOT NULL);
INSERT INTO older.version VALUES (1);
CREATE TABLE older.meta (key text COLLATE "C" PRIMARY KEY, value text COLLATE "C" NOT NULL);
CREATE SEQUENCE older.entry_ids AS bigint INCREMENT BY 1024 MAXVALUE 9007199254740992;
CREATE SEQUENCE older.arrivals AS bigint;
CREATE TABLE older.root (
            k bigint PRIMARY KEY, name bytea NOT NULL, spaced boolean NOT NULL, n bigint NOT NULL,
            mark uuid NOT NULL, salt text NOT NULL, sequences text NOT NULL);
CREATE TABLE older.step (
            k bigint NOT NULL, n bigint NOT NULL, mark uuid NOT NULL, gone text NOT NULL,
            PRIMARY KEY (k, n));
CREATE TABLE older.session (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, name bytea NOT NULL, name_hash bigint NOT NULL, namespace bytea NOT NULL, next_seq bigint NOT NULL, entries bigint NOT NULL, compactions bigint NOT NULL, revision bigint NOT NULL, epoch bigint NOT NULL, redactions bigint NOT NULL, counter bigint NOT NULL, write_id bigint NOT NULL, dropped bigint NOT NULL, head bigint, clock text COLLATE "C" NOT NULL, settings text COLLATE "C" NOT NULL, tokens bigint NOT NULL, first_at bigint, last_at bigint, title bytea NOT NULL, checksum bigint NOT NULL, born bigint NOT NULL DEFAULT nextval('older.arrivals'::regclass), PRIMARY KEY (k, id));
CREATE INDEX session_n ON older.session (k, n);
CREATE TABLE older.message (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, write_id bigint NOT NULL, raw text COLLATE "C" NOT NULL, role text COLLATE "C" NOT NULL, dialect text COLLATE "C" NOT NULL, provenance text COLLATE "C" NOT NULL, tokens bigint NOT NULL, created_at bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX message_n ON older.message (k, n);
CREATE TABLE older.compaction (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, session bigint NOT NULL, parent bigint, policy bytea NOT NULL, reason bytea NOT NULL, state text COLLATE "C" NOT NULL, covers text COLLATE "C" NOT NULL, view text COLLATE "C" NOT NULL, derived text COLLATE "C" NOT NULL, next_seq bigint NOT NULL, model bytea NOT NULL, usage text COLLATE "C" NOT NULL, tokens_before bigint NOT NULL, tokens_after bigint NOT NULL, messages_before bigint NOT NULL, messages_after bigint NOT NULL, created_at bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX compaction_n ON older.compaction (k, n);
CREATE TABLE older.derived (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, session bigint NOT NULL, kind text COLLATE "C" NOT NULL, seq bigint, level bigint NOT NULL, degraded bigint NOT NULL, redacted bigint NOT NULL, dialect text COLLATE "C" NOT NULL, covers text COLLATE "C" NOT NULL, raw bytea NOT NULL, created_at bigint NOT NULL, digest bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX derived_n ON older.derived (k, n);
CREATE TABLE older.entry (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, session bigint NOT NULL, source_start bigint NOT NULL, source_end bigint NOT NULL, role bytea NOT NULL, name bytea, kind bytea NOT NULL, tags text COLLATE "C" NOT NULL, created_at bigint NOT NULL, expires_at bigint, repaired bigint NOT NULL, compaction bigint, text bytea NOT NULL, fingerprint bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX entry_n ON older.entry (k, n);
CREATE TABLE older.stage (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, session bigint NOT NULL, token text COLLATE "C" NOT NULL, fingerprint bytea NOT NULL, digest bigint NOT NULL, state bigint NOT NULL, size bigint NOT NULL, held bigint NOT NULL, receipt text COLLATE "C" NOT NULL, created_at bigint NOT NULL, checksum bigint NOT NULL, born bigint NOT NULL DEFAULT nextval('older.arrivals'::regclass), PRIMARY KEY (k, id));
CREATE INDEX stage_n ON older.stage (k, n);
CREATE TABLE older.staged (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, stage bigint NOT NULL, place bigint NOT NULL, source_start bigint NOT NULL, source_end bigint NOT NULL, role bytea NOT NULL, name bytea, kind bytea NOT NULL, tags text COLLATE "C" NOT NULL, created_at bigint NOT NULL, expires_at bigint, repaired bigint NOT NULL, text bytea NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX staged_n ON older.staged (k, n);
CREATE TABLE older.quarantine (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, session bigint NOT NULL, text bytea NOT NULL, found_at bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX quarantine_n ON older.quarantine (k, n);
CREATE TABLE older.embedder (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, name bytea NOT NULL, dimension bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX embedder_n ON older.embedder (k, n);
CREATE TABLE older.vector (k bigint NOT NULL, n bigint NOT NULL, entry bigint NOT NULL, session bigint NOT NULL, revision bigint NOT NULL, embedder bigint NOT NULL, data bytea NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, entry));
CREATE INDEX vector_n ON older.vector (k, n);
CREATE TABLE older.fact (k bigint NOT NULL, n bigint NOT NULL, id bigint NOT NULL, session bigint NOT NULL, namespace bytea NOT NULL, state bytea NOT NULL, key bytea NOT NULL, body bytea NOT NULL, created_at bigint NOT NULL, changed_at bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, id));
CREATE INDEX fact_n ON older.fact (k, n);
CREATE TABLE older.forgotten (k bigint NOT NULL, n bigint NOT NULL, session bigint NOT NULL, seq bigint NOT NULL, digest bytea NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (k, session, seq, digest));
CREATE INDEX forgotten_n ON older.forgotten (k, n);
CREATE UNIQUE INDEX session_name ON older.session (name_hash);
CREATE INDEX session_born ON older.session (born);
CREATE INDEX session_settings ON older.session (born) WHERE settings <> '';
CREATE INDEX entry_id ON older.entry (id);
CREATE UNIQUE INDEX stage_token ON older.stage (token);
CREATE INDEX stage_waiting ON older.stage (born) WHERE state = 0;
