-- The number of the last request. ARGV: group.
return {redis.call('HGET', key('ledger', ARGV[1]), 'changes') or '0', now(), server()}
