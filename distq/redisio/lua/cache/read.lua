-- Read the objects in ranges of the index, (first, last) each: from each range, in its order, at most `limit` objects,
-- and no further object once they have `max_bytes`. Returns {record of the stream, for each range {name after which to
-- continue or '', name, terms, record of the object, ...}}.
local streams, cache, terms, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stream, limit, max_bytes, ranges = ARGV[1], ARGV[2], tonumber(ARGV[3]), { unpack(ARGV, 4) }
local call = redis.call
local function read(first, last)
  local found, bytes = { '' }, 0
  for i, member in ipairs(call('ZRANGEBYLEX', index, first, last, 'LIMIT', '0', limit)) do
    local name = string.match(member, '%z(.*)') or member
    local record = call('HGET', cache, name)
    local found_by = call('HGET', terms, name)
    found[#found + 1], found[#found + 2], found[#found + 3] = name, found_by, record
    bytes = bytes + #(record or '') + #(found_by or '')
    if bytes >= max_bytes or i == tonumber(limit) then
      found[1] = name
      break
    end
  end
  return found
end
local answer = { call('HGET', streams, stream) }
for i = 1, #ranges, 2 do answer[#answer + 1] = read(ranges[i], ranges[i + 1]) end
return answer
