  -- in: before, link, links, stamp
  -- out: nothing
  -- Each item has its own stamp. So one entry can record that this span made all items pending whose stamps are above
  -- `before`, up to `stamp`; the items need no record. Ten thousand entries are kept. Only people read them: if they
  -- cannot be written, the queue continues.
  local function keep_link()
    if call('ZCARD', links) >= 10000 then
      call('ZREM', links, unpack(call('ZRANGEBYSCORE', links, '-inf', '+inf', 'LIMIT', '0', '1')))
    end
    call('ZADD', links, stamp, string.format('%.0f ', before + 1) .. link)
  end
  if stamp > before then pcall(keep_link) end
