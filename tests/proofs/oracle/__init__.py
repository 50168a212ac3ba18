"""The originals, client-go's workqueue and controller-runtime's priority queue, run beside ours.

The program of ``tests/go/oracle`` drives them in fake time.
"""
