  -- in: before, link, links, stamp
  -- out: nothing
  -- Each item got a stamp of its own, so of what stands in the queue since a stamp above `before` and up to this one it
  -- is known, without a word at the item, that this span made it pending. Of these ten thousand are kept. It is for
  -- people: where it cannot be written, the queue goes on.
  local function keep_link()
    if call('ZCARD', links) >= 10000 then
      call('ZREM', links, unpack(call('ZRANGEBYSCORE', links, '-inf', '+inf', 'LIMIT', '0', '1')))
    end
    call('ZADD', links, stamp, string.format('%.0f ', before + 1) .. link)
  end
  if stamp > before then pcall(keep_link) end
