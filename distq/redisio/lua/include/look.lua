-- Look first: every key is read before anything is written, since a key of a wrong type stops the script here
-- and Lua does not roll back. A write that full memory permits then opens the way for the rest.
call('ZCARD', ready)
call('ZCARD', processing)
local n_sessions, n_dirty, n_failures = call('ZCARD', sessions), call('ZCARD', dirty), call('HLEN', failures)
local first, tokens = call('ZRANGE', delayed, 0, 0, 'WITHSCORES'), call('LLEN', wake)
call('ZCARD', dead)
call('HLEN', workers)
call('HDEL', claims, '')
