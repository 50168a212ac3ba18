-- in: processing
-- out: nothing
-- Redis checks maxmemory only before the first write of a script. It permits a removal even if memory is full, and even
-- if there is nothing to remove; then it permits all later writes. This also checks the type of `processing`.
call('ZREM', processing, '\0no item')
