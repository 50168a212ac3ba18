-- Make ready and delayed items dead at a user's request, unless a session holds them; their failure counts stay. A dead
-- item that time would revive counts as parked by the user from now on, and stays dead.
-- Returns how many items changed.
local ready, suspects, processing, delayed, failures, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local arrivals, held_back, meta, wake = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local time, why = ARGV[1], ARGV[2]
local items = { unpack(ARGV, 3) }
local call = redis.call
--- @include now
--- @include parked
local were_dead = call('ZMSCORE', dead, unpack(items))
local n_failures, n_arrivals = call('HLEN', failures), call('HLEN', arrivals)
local held = call('ZMSCORE', processing, unpack(items))
local now_ready, later = call('ZMSCORE', ready, unpack(items)), call('ZMSCORE', delayed, unpack(items))
local suspected = call('ZMSCORE', suspects, unpack(items))
local is_held_back = call('ZMSCORE', held_back, unpack(items))
--- @include first_suspect
local from_ready, from_suspects, from_delayed = { 'ZREM', ready }, { 'ZREM', suspects }, { 'ZREM', delayed }
local from_held_back = { 'ZREM', held_back }
local to_dead, remember, forget = { 'ZADD', dead }, { 'HSET', failures }, { 'HDEL', arrivals }
local of_now = string.format('%.0f parked', now)
for i, item in ipairs(items) do
  local would_be_revived = were_dead[i] and tonumber(were_dead[i]) >= WAITING_MAY_HELP
  if not held[i] and (now_ready[i] or suspected[i] or is_held_back[i] or later[i] or would_be_revived) then
    local from = (now_ready[i] and from_ready) or (suspected[i] and from_suspects) or (later[i] and from_delayed)
    from = from or (is_held_back[i] and from_held_back)
    if from then from[#from + 1] = item end
    to_dead[#to_dead + 1], to_dead[#to_dead + 2] = now, item
    forget[#forget + 1] = item
    local failure = n_failures > 0 and call('HGET', failures, item) or ''
    local counts = string.match(failure, '^%d+ %d+ ') or '0 0 '
    local claims_that_crashed = string.match(failure, '^%d+ %d+ %d+ %S+(@[%d,]+) ') or ''
    remember[#remember + 1], remember[#remember + 2] = item, counts .. of_now .. claims_that_crashed .. ' ' .. why
  end
end
-- removals first: if memory is full, Redis permits the other writes only after them
if #from_ready > 2 then call(unpack(from_ready)) end
if n_arrivals > 0 and #forget > 2 then call(unpack(forget)) end
if #from_suspects > 2 then call(unpack(from_suspects)) end
if #from_delayed > 2 then call(unpack(from_delayed)) end
if #from_held_back > 2 then call(unpack(from_held_back)) end
if #to_dead == 2 then return 0 end
call(unpack(to_dead))
call(unpack(remember))
wake_if_another_is_first()
return (#to_dead - 2) / 2
