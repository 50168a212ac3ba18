-- in: nothing
-- out: entry_of, flow_of
-- What `flow_items` has of an item: its flow, NUL, a letter, its name; c: it is claimed, l: it was let in, and goes
-- before those of its flow that are held back. Of these it has w, and before the name the order, which sorts as bytes.
local function flow_of(item) return string.match(item, '^([^/%z]*)/') or '' end
local function entry_of(letter, item) return flow_of(item) .. '\0' .. letter .. item end
