-- API keys of a project; called only by store/keys.py.

-- name: find_key
-- What a key that is presented is compared with, whether it is live, and whether its last use was
-- written more than a minute ago; index api_keys_pkey. The former secret while it is taken.
SELECT
    p.slug, k.role, k.expires_at, k.secret_hash,
    CASE WHEN k.former_until > now() THEN k.former_hash END AS former_hash,
    k.revoked_at IS NULL AND coalesce(k.expires_at > now(), true) AS is_live,
    coalesce(k.last_used_at < now() - interval '1 minute', true) AS is_use_unwritten
FROM lastro.api_keys AS k
JOIN lastro.projects AS p ON p.id = k.project_id
WHERE k.project_id = %(project_id)s::bigint AND k.id = %(id)s::text;

-- name: insert_key
INSERT INTO lastro.api_keys (project_id, id, role, label, secret_hash, expires_at)
VALUES (
    %(project_id)s::bigint, %(id)s::text, %(role)s::text, %(label)s::text, %(secret_hash)s::bytea,
    %(expires_at)s::timestamptz
);

-- name: list_keys
-- Keys in any state, or one of them, the newest first; index api_keys_pkey, a project's keys are
-- read whole where none is named. No secret, and no hash of one.
SELECT
    id, role, label,
    CASE
        WHEN revoked_at IS NOT NULL THEN 'revoked'
        WHEN expires_at <= now() THEN 'expired'
        ELSE 'active'
    END AS state,
    created_at, expires_at, revoked_at, last_used_at,
    CASE WHEN former_until > now() THEN least(former_until, expires_at) END AS former_until
FROM lastro.api_keys
WHERE project_id = %(project_id)s::bigint AND (%(id)s::text IS NULL OR id = %(id)s::text)
ORDER BY created_at DESC, id;

-- name: revoke_key
-- Both secrets are refused from the commit on; who revokes again changes nothing. Index
-- api_keys_pkey.
UPDATE lastro.api_keys SET revoked_at = coalesce(revoked_at, now())
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::text;

-- name: rotate_key
-- Another secret for a key that is live; the present one is taken until former_until, or no longer
-- where that is null. A null expires_at leaves the end as it is. Index api_keys_pkey.
UPDATE lastro.api_keys SET
    secret_hash = %(secret_hash)s::bytea,
    former_hash = CASE WHEN %(former_until)s::timestamptz IS NOT NULL THEN secret_hash END,
    former_until = %(former_until)s::timestamptz,
    expires_at = coalesce(%(expires_at)s::timestamptz, expires_at)
WHERE project_id = %(project_id)s::bigint AND id = %(id)s::text
    AND revoked_at IS NULL AND coalesce(expires_at > now(), true);

-- name: note_keys_used
-- At most once a minute for a key, whichever process writes first; index api_keys_pkey.
UPDATE lastro.api_keys SET last_used_at = now()
WHERE project_id = %(project_id)s::bigint AND id = ANY (%(ids)s::text[])
    AND coalesce(last_used_at < now() - interval '1 minute', true);
