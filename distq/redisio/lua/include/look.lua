-- Look first: every key is read before anything is written, since a key of a wrong type stops the script here
-- and Lua does not roll back. A write that full memory permits then opens the way for the rest.
call('ZCARD', ready)
call('ZCARD', processing)
call('ZCARD', sessions)
call('HLEN', workers)
local n_dirty, n_delayed, n_dead = call('ZCARD', dirty), call('ZCARD', delayed), call('ZCARD', dead)
local n_failures, tokens = call('HLEN', failures), call('LLEN', wake)
call('HDEL', claims, '')
