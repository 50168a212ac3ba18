-- Look first: every key that may be written is read before anything is, since a key of a wrong type stops the script
-- here and Lua does not roll back. A write that full memory permits then opens the way for the rest.
-- Constants are text, since Redis formats numbers slowly.
call('ZCARD', ready)
local n_sessions, n_dirty, n_failures = call('ZCARD', sessions), call('ZCARD', dirty), call('HLEN', failures)
local first, tokens = call('ZRANGE', delayed, '0', '0', 'WITHSCORES'), call('LLEN', wake)
seen = tonumber(seen)
local ticks = not seen or now < seen or now - seen >= 100000
if ticks then
  call('HLEN', claims)
  call('ZCARD', dead)
  call('HLEN', workers)
end
call('ZREM', processing, '')
