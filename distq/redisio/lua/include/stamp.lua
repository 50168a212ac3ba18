-- in: stamp
-- out: stamp
-- The last stamp. What is no number, or none of this age, counts as never given: the clock is ahead of all that was.
stamp = tonumber(stamp)
if not stamp or not (stamp >= 0 and stamp < 2 ^ 52) then stamp = 0 end
