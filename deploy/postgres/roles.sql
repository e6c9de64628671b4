-- Roles and databases of one PostgreSQL. Run by the superuser; safe to run again.
--
-- Here: who exists, which databases there are, and who may enter which. What a role may do with a table is granted by
-- the migrations, beside the table. Used by deploy/local/roles.sh and, at its first start, by the container of
-- docker-compose.yml. The passwords come from the environment, never from this file or a command line.

\set ON_ERROR_STOP on
\getenv oncepay_password PASSWORD_ONCEPAY
\getenv payment_core_password PASSWORD_PAYMENT_CORE
\getenv outbox_relay_password PASSWORD_OUTBOX_RELAY
\getenv ledger_consumer_password PASSWORD_LEDGER_CONSUMER
\getenv ledger_service_password PASSWORD_LEDGER_SERVICE
\getenv reconciler_password PASSWORD_RECONCILER

-- A statement that fails is written to the server's log, and the ones below carry passwords.
SET log_min_error_statement = panic;
SET log_min_duration_statement = -1;

SELECT format('CREATE ROLE %I', name)
FROM (VALUES ('oncepay'), ('payment_core'), ('outbox_relay'), ('ledger_consumer'), ('ledger_service'), ('reconciler'))
    AS wanted (name)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
\gexec

-- The owner: runs migrations and audits, and in tests creates a database for each. It is no superuser, so that what
-- holds against it (the ledger's entries are immutable, also for the owner) is really tried.
ALTER ROLE oncepay LOGIN NOSUPERUSER CREATEDB NOCREATEROLE NOREPLICATION PASSWORD :'oncepay_password';

-- The services: one role each, so that a service can do no more than its job.
ALTER ROLE payment_core LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'payment_core_password';
ALTER ROLE outbox_relay LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'outbox_relay_password';
ALTER ROLE ledger_consumer LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'ledger_consumer_password';
ALTER ROLE ledger_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'ledger_service_password';
ALTER ROLE reconciler LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'reconciler_password';

-- Finance only reads. Its grants say so too; this is for the day on which one of them is wrong.
ALTER ROLE ledger_service SET default_transaction_read_only = on;

-- The owner may take the place of each service: to check its grants (SET ROLE), and to end its sessions when a test
-- drops its database. It gains nothing, as it owns all that they can touch.
GRANT payment_core, outbox_relay, ledger_consumer, ledger_service, reconciler TO oncepay;

SELECT format('CREATE DATABASE %I OWNER oncepay', name)
FROM (VALUES ('payment'), ('ledger')) AS wanted (name)
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = name)
\gexec

-- By default everybody may enter every database.
REVOKE CONNECT, TEMPORARY ON DATABASE payment, ledger, postgres, template1 FROM PUBLIC;
GRANT CONNECT ON DATABASE payment TO payment_core, outbox_relay, reconciler;
GRANT CONNECT ON DATABASE ledger TO ledger_consumer, ledger_service;
-- From here tests create their databases.
GRANT CONNECT ON DATABASE postgres TO oncepay;

-- PostgreSQL 15 has this already; a cluster upgraded from an older one has not.
\connect payment
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
\connect ledger
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
