-- in: claims, dead, delayed, dirty, failures, now, processing, ready, seen, sessions, suspects, wake, workers
-- out: first, n_dirty, n_failures, n_sessions, n_suspects, seen, ticks, tokens
-- Read every key that may be written, before anything is: one of a wrong type stops the script here, and nothing that
-- a script wrote is rolled back. Constants are text, since Redis formats numbers slowly.
call('ZCARD', ready)
local n_sessions, n_dirty, n_failures = call('ZCARD', sessions), call('ZCARD', dirty), call('HLEN', failures)
local first, tokens = call('ZRANGE', delayed, '0', '0', 'WITHSCORES'), call('LLEN', wake)
seen = tonumber(seen)
local ticks = not (seen and now >= seen and now - seen < 100000)
-- where nothing failed there is no suspect
local n_suspects = (ticks or n_failures > 0) and call('ZCARD', suspects) or 0
if ticks then
  call('HLEN', claims)
  call('ZCARD', dead)
  call('HLEN', workers)
end
-- Redis looks at maxmemory only before a script's first write: a removal is permitted where memory is full, of what is
-- not there, too, and then all that follows is.
call('ZREM', processing, '\0no item')
