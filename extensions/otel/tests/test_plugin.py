from pathlib import PurePosixPath

from extensions.otel import FILE
from store.backup.contents import find_rule


def test_a_backup_leaves_out_how_far_collectors_have_come():
    rule = find_rule(PurePosixPath(FILE))
    assert rule is not None
    assert not rule.is_copied
