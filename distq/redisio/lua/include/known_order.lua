-- in: now, order
-- out: known_order
-- Return the order that a text has; for an invalid text, the order of an item that is added now.
local function known_order(text)
  local score = tonumber(text)
  if score and score >= 2 ^ -848 and score < 2 ^ 953 then return score end
  return order(0, now)
end
