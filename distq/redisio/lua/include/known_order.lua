-- in: now, order
-- out: known_order
-- The order that a text holds; of what is none that of an item which is added now.
local function known_order(text)
  local score = tonumber(text)
  if score and score >= 2 ^ -848 and score < 2 ^ 953 then return score end
  return order(0, now)
end
