-- in: claims, dead, delayed, dirty, failures, now, ready, seen, sessions, suspects, wake, workers
-- out: first, n_dirty, n_failures, n_sessions, n_suspects, seen, ticks, tokens
-- Read each key that may be written, before the first write: a wrong type stops the script here, because Redis does not
-- roll back writes. Constants are texts, because Redis formats numbers slowly.
call('ZCARD', ready)
local n_sessions, tokens = call('ZCARD', sessions), call('LLEN', wake)
-- These are often empty: ask for all together, and read one after another only until all that exist are found.
local more = call('EXISTS', delayed, failures, dirty)
local first = more > 0 and call('ZRANGE', delayed, '0', '0', 'WITHSCORES') or {}
if first[2] then more = more - 1 end
local n_failures = more > 0 and call('HLEN', failures) or 0
if n_failures > 0 then more = more - 1 end
local n_dirty = more > 0 and call('ZCARD', dirty) or 0
seen = tonumber(seen)
local ticks = not (seen and now >= seen and now - seen < 100000)
-- without failure records there are no suspects
local n_suspects = (ticks or n_failures > 0) and call('ZCARD', suspects) or 0
if ticks then
  call('HLEN', claims)
  call('ZCARD', dead)
  call('HLEN', workers)
end
