-- in: links, popped, wants_links
-- out: linked
-- The spans that made the claimed items pending, from `keep_link`; '' if not known. An item that is pending since a
-- full ms has no span: the clock made it pending, after a delay or after its time as a dead item.
local linked -- nil: the reply has no links unless the caller wants them
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
