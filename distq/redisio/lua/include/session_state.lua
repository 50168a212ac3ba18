clock = tonumber(clock or 0)
local now_text, clock_text = string.format('%.0f', now), string.format('%.0f', clock)
--- @include failure
--- @include put_back
--- @include tick
