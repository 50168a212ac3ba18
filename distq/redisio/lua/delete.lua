-- Delete pending and dead items; delete their failure records, too, unless a session holds the item.
-- If `state` is not '', delete only items in that state. Returns how many items changed.
local ready, suspects, dirty, processing = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delayed, failures, dead, arrivals, held_back = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local meta, wake = KEYS[10], KEYS[11]
local state = ARGV[1]
local items = { unpack(ARGV, 2) }
local call = redis.call
local held = call('ZMSCORE', processing, unpack(items))
for _, key in ipairs({ ready, suspects, held_back, dirty, delayed, dead }) do call('ZCARD', key) end
call('HLEN', failures)
local n_arrivals = call('HLEN', arrivals)
--- @include first_suspect
local states = { ready = { ready, suspects, held_back }, dirty = { dirty }, delayed = { delayed }, dead = { dead } }
states[''] = { ready, suspects, held_back, dirty, delayed, dead }
local dropped = {}
for _, key in ipairs(states[state]) do
  for i, score in ipairs(call('ZMSCORE', key, unpack(items))) do dropped[i] = dropped[i] or score end
  call('ZREM', key, unpack(items))
end
local deleted, forget = 0, { 'HDEL', failures }
for i, item in ipairs(items) do
  if dropped[i] then
    deleted = deleted + 1
    if not held[i] then forget[#forget + 1] = item end
  end
end
if #forget > 2 then call(unpack(forget)) end
if n_arrivals > 0 and #forget > 2 then call('HDEL', arrivals, unpack(forget, 3)) end
wake_if_another_is_first()
return deleted
