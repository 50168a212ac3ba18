  -- in: bounded, dead, delayed, failures, held_back, items, now, objects, parked_as, processing, ready, suspects,
  --     unrouted
  -- out: nothing
  -- If a function of a watch fails for an object, the object is dead until the functions work for it: under its own
  -- key, or, if it would be mapped to other keys, under a name that is no key, with the reason `unmapped`. An item that
  -- is pending or held gets another try anyway, which sees the present object: it joins `items`. An item that is dead
  -- for another reason keeps that reason.
  local reason = parked_as == '' and 'routing' or 'unmapped'
  local names = {}
  for i, object in ipairs(objects) do names[i] = parked_as .. object end
  local parked = #names > 0 and call('ZMSCORE', dead, unpack(names))
  for i, name in ipairs(names) do
    if parked[i] and string.find(call('HGET', failures, name) or '', '^0 0 %d+ ' .. reason .. ' ') then
      call('ZREM', dead, name)
      call('HDEL', failures, name)
    end
  end
  local failed = {}
  for i = 1, #unrouted, 2 do failed[#failed + 1] = unrouted[i] end
  if #failed > 0 then
    local now_ready, later = call('ZMSCORE', ready, unpack(failed)), call('ZMSCORE', delayed, unpack(failed))
    local suspected = call('ZMSCORE', suspects, unpack(failed))
    local is_held_back = bounded and call('ZMSCORE', held_back, unpack(failed)) or {}
    local held, now_dead = call('ZMSCORE', processing, unpack(failed)), call('ZMSCORE', dead, unpack(failed))
    local record, is_item = string.format('0 0 %.0f %s ', now, reason), {}
    for _, item in ipairs(items) do is_item[item] = true end
    for i, name in ipairs(failed) do
      if now_ready[i] or suspected[i] or later[i] or held[i] or is_held_back[i] then
        if not is_item[name] then items[#items + 1] = name end
      elseif not now_dead[i] then
        call('ZADD', dead, now, name)
        call('HSET', failures, name, record .. unrouted[2 * i])
      end
    end
  end
