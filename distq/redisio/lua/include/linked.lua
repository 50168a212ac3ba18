-- in: links, popped, wants_links
-- out: linked
-- The spans that made the claimed items pending, as `keep_link` kept them; '' where that is not known. What is pending
-- since a full ms is so by the clock, by nobody's span: a delay has ended, or its time among the dead.
local linked -- nil leaves the reply as it is for who does not ask
if wants_links ~= '' then
  local first, last, link = 0, 0, ''
  local function look_up()
    for i = 2, #popped, 2 do
      local since = math.frexp(tonumber(popped[i])) * 2 ^ 53 - 2 ^ 52
      if since > last or since < first then
        local from = string.format('%.0f', since)
        local found = call('ZRANGEBYSCORE', links, from, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
        first, link = string.match(found[1] or '', '^(%d+) (%S+)$')
        first, last = tonumber(first) or math.huge, tonumber(found[2]) or 0
      end
      linked[i / 2] = since >= first and since % 1000 ~= 0 and link or ''
    end
  end
  linked = {}
  if not pcall(look_up) then linked = nil end
end
