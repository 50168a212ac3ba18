-- Read the objects that a range of the index finds, in its order: at most `limit`, and no more once they have
-- `max_bytes`. Returns {record of the stream, member to go on after or '', name, terms, record of the object, ...}.
local streams, cache, terms, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stream, first, last, limit, max_bytes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local call = redis.call
local members = call('ZRANGEBYLEX', index, first, last, 'LIMIT', '0', limit)
local found, bytes = { call('HGET', streams, stream), '' }, 0
for i, member in ipairs(members) do
  local name = string.match(member, '%z(.*)') or member
  local record = call('HGET', cache, name)
  local found_by = call('HGET', terms, name)
  found[#found + 1], found[#found + 2], found[#found + 3] = name, found_by, record
  bytes = bytes + #(record or '') + #(found_by or '')
  if bytes >= max_bytes or i == tonumber(limit) then
    found[2] = member
    break
  end
end
return found
