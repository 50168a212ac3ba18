    -- in: meta, n_suspects, now, number
    -- out: records
    -- Claim where anything failed. A suspect is claimed alone, so that poison kills no siblings. One session at a time
    -- empties itself for that: it claims nothing until it holds nothing, then the suspects one by one. The others claim
    -- what is no suspect; one of them that holds nothing, and finds nothing else, claims a suspect, too.
    --- @include suspect
    local EMPTYING_AT_MOST = 600000000 -- a handler that hangs must not keep the suspects waiting for ever
    local emptying, since = string.match(call('HGET', meta, 'emptying') or '', '^(%d+) (%d+)$')
    local took = now - tonumber(since or 0)
    local in_time = took >= 0 and took < EMPTYING_AT_MOST
    local ours = emptying == number and in_time
    records = {}
    if not ours or n_suspects == 0 then
      --- @include set_apart
    end
    if n_suspects > 0 then
      --- @include claim_suspect
    elseif ours then
      call('HDEL', meta, 'emptying')
    end
