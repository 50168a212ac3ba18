-- in: processing
-- out: nothing
-- Redis looks at maxmemory only before a script's first write: a removal is permitted where memory is full, of what is
-- not there, too, and then all that follows is. And `processing` is known to be of its type.
call('ZREM', processing, '\0no item')
