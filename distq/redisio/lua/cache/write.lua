-- Put objects that the fleet itself wrote, (name, terms, record) each, unless the cached version is newer or the stream
-- has passed the version: such an object may have been deleted since. Returns how many versions the stream had not
-- passed. If the stream is gone, or belongs to another watch, put nothing and return nil: no leader would remove the
-- objects.
-- `watch` is the watch as in the record's JSON, `"watch":"..."`: a text inside JSON has no plain quotes.
local streams, cache, terms, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stream, watch = ARGV[1], ARGV[2]
local records = { unpack(ARGV, 3) }
local call = redis.call
call('HLEN', cache)
call('HLEN', terms)
call('ZCARD', index)
--- @include older
--- @include cached
--- @include stored_terms
local position, about = string.match(call('HGET', streams, stream) or '', '^%S+ (%S+) %S+ (.*)$')
if not position then return false end
if not string.find(about, watch, 1, true) then return false end
local passed, listed = string.match(position, '^%d*'), string.match(position, '@(%d+)$') or ''
local function is_there(name)
  local version, found_by = read_terms(call('HGET', terms, name))
  return version and found_by ~= 'gone'
end
local ahead = {}
for i = 1, #records, 3 do
  local name, version = records[i], read_terms(records[i + 1])
  -- after the last page of a list, objects that the list lacks are about to go: replace one, but bring none back
  if older(passed, version) and (older(listed, version) or is_there(name)) then
    ahead[#ahead + 1], ahead[#ahead + 2], ahead[#ahead + 3] = name, records[i + 1], records[i + 2]
  end
end
if #ahead > 0 then put_all(ahead, 1, stored_terms(ahead, 1, math.huge), passed) end
return #ahead / 3
