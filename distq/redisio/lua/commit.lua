-- Add a batch of items and move its stream to a new position. Do nothing unless the stream's last batch is `after`.
-- `unrouted`: items for which functions of the watch failed, (item, error) each, in JSON; see `include/unrouted`.
-- The last arguments are changes of the cache, (name, terms, record) each, behind deleted names; see `include/cached`.
-- If `delay`, in µs, is above 0, the items become pending after it; see `include/enqueue_later`.
-- `link` is the span that commits, or empty; see `include/keep_link`.
-- It also writes a sample to the history, so that the history continues without workers.
-- Returns {OK, added}, {FENCED, stored epoch} or {MISMATCH, stored position}; or {TOO_LARGE, ''} if the old and the new
-- index terms of the objects together have more than `terms_limit` bytes. A repeated batch returns OK again, and a
-- batch that is its own `after` writes nothing but `about`: so a leader reports while Redis refuses its next batch.
local ready, dirty, processing, delayed, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local streams, known, cache, index, meta, wake = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local failures, workers, history, terms, links = KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16]
local suspects, flows, arrivals, held_back = KEYS[17], KEYS[18], KEYS[19], KEYS[20]
local time, stream, epoch, replaces, after, new = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local batch, about, priority, keep_pending = ARGV[7], ARGV[8], tonumber(ARGV[9]), ARGV[10] == '1'
local n_items, n_known, n_cached, clears_cache = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14]
local unrouted, parked_as, link, terms_limit = cjson.decode(ARGV[15]), ARGV[16], ARGV[17], tonumber(ARGV[18])
local delay, rest = tonumber(ARGV[19]), { unpack(ARGV, 20) }
local call = redis.call
--- @include now
local stamp, trace_until, fair_by = unpack(call('HMGET', meta, 'stamp', 'trace', 'fair_by'))
traced = trace_until
--- @include stamp
for _, key in ipairs({ ready, suspects, dirty, processing, delayed }) do call('ZCARD', key) end
local n_dead = call('ZCARD', dead)
call('HLEN', failures)
call('HLEN', known)
call('HLEN', cache)
call('HLEN', terms)
local n_index, tokens = call('ZCARD', index), call('LLEN', wake)
local n_before_gone, n_before_cached = n_items + 2 * n_known, #rest - 3 * n_cached
if traced and n_cached > 0 then args = { unpack(ARGV, 1, 19 + n_before_cached) } end -- objects may be secret

--- @include older
local record = call('HGET', streams, stream)
local stored_epoch, position, last_batch = string.match(record or '', '^(%d+) ([!-~]+) ([!-~]+) ')
if stored_epoch then -- an unreadable record counts as none: its leader lists again
  if older(epoch, stored_epoch) and replaces ~= stored_epoch then return { 'FENCED', stored_epoch } end
  if last_batch == batch and after ~= batch then return { 'OK', 0 } end
end
-- The last batch identifies more than the position: a list of unchanged objects ends at the position where it began.
if (last_batch or '') ~= after then return { 'MISMATCH', position or '' } end
local stored = {}
if n_cached > 0 then
  --- @include stored_terms
  -- the index loses and gains a member for each term. Too many would take too long for one step, so only a single
  -- object may have more terms.
  stored = stored_terms(rest, n_before_cached + 1, n_cached > 1 and terms_limit or math.huge)
  if not stored then return { 'TOO_LARGE', '' } end
end

if #rest == 0 and #unrouted == 0 then -- a report, or a position: Redis takes it even if memory is full
  --- @include permit_writes
end
--- @include by_flow
--- @include check_flows
--- @include enqueue
local added, items = 0, { unpack(rest, 1, n_items) }
if n_dead > 0 or #unrouted > 0 then
  local objects = { unpack(rest, n_before_gone + 1, n_before_cached) }
  for i = n_items + 1, n_before_gone, 2 do objects[#objects + 1] = rest[i] end
  --- @include unrouted
end
if #items > 0 and delay > 0 then
  local paused, cover = unpack(call('HMGET', meta, 'paused', 'cover'))
  --- @include enqueue_later
  added = enqueue_later(items, delay, priority, keep_pending)
  call('HSET', meta, 'stamp', string.format('%d', stamp))
elseif #items > 0 then
  local before = math.max(stamp, now - 1)
  added = enqueue(items, priority, keep_pending)
  call('HSET', meta, 'stamp', string.format('%d', stamp))
  if link ~= '' then
    --- @include keep_link
  end
end
if n_known > 0 then call('HSET', known, unpack(rest, n_items + 1, n_before_gone)) end
if n_before_cached > n_before_gone then call('HDEL', known, unpack(rest, n_before_gone + 1, n_before_cached)) end
if clears_cache == '1' then
  call('UNLINK', cache, terms, index)
  stored = {}
end
if n_cached > 0 or n_index > 0 then
  --- @include cached
  local passed = string.match(new, '^%d*')
  if n_cached > 0 then put_all(rest, n_before_cached + 1, stored, passed) end
  drop_markers(passed)
end
if new == '' then
  call('HDEL', streams, stream)
else
  call('HSET', streams, stream, table.concat({ epoch, new, batch, about }, ' '))
end
--- @include sample
pcall(sample) -- only people read it: if it cannot be written, the queue continues
return { 'OK', added }
