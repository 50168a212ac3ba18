-- in: nothing
-- out: entry_of, flow_of
-- The entry of an item in `flow_items`: its flow, NUL, a letter, its name. c: it is claimed. l: it was let in, and goes
-- before the held-back items of its flow. w: it is held back; its order, as bytes that sort, is before the name.
local function flow_of(item) return string.match(item, '^([^/%z]*)/') or '' end
local function entry_of(letter, item) return flow_of(item) .. '\0' .. letter .. item end
