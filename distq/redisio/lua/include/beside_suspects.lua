    -- in: meta, n_suspects, now, number
    -- out: records
    -- Claim while there are failure records or a limit per flow. A suspect is claimed alone, so that a poisonous item
    -- does not kill the process of others. For this, one session at a time empties itself: it claims nothing until it
    -- holds nothing, then the suspects one by one. The other sessions claim the other items; one that holds nothing,
    -- and finds no other item, claims a suspect, too.
    --- @include suspect
    local EMPTYING_AT_MOST = 600000000 -- a handler that hangs must not delay the suspects for ever
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
