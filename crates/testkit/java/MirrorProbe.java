class MirrorProbe {}
