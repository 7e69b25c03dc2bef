"""What the tools print, in the shapes of several versions, written from their manual pages.

All iostat shapes tell the same two reports: one since boot, and one second of two disks.
"""

# ruff: noqa: E501 - the tools print wider lines than we write

from __future__ import annotations

from ai4infra.diagnosis.samples import CpuSample, DiskSample

SDA = DiskSample(
    device="sda",
    reads_s=40.0,
    writes_s=10.0,
    read_bytes_s=5120 * 1024.0,
    write_bytes_s=1024 * 1024.0,
    read_wait_s=0.0125,
    write_wait_s=0.002,
    queue=0.52,
    busy=0.45,
)
NVME = DiskSample(
    device="nvme0n1",
    reads_s=8000.0,
    writes_s=0.0,
    read_bytes_s=1048576 * 1024.0,
    write_bytes_s=0.0,
    read_wait_s=0.00025,
    write_wait_s=0.0,
    queue=2.0,
    busy=1.0,
)
CPU = CpuSample(cpu="all", user=0.31, system=0.05, iowait=0.04, steal=0.0, idle=0.6)

LINUX = "Linux 6.8.0-1021-azure (trainer) \t01/05/2026 \t_x86_64_\t(96 CPU)\n"
AVG = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n"
BOOT_CPU = "           3.00    0.00    1.00    0.00    0.00   96.00\n"
NOW_CPU = "          30.00    1.00    5.00    4.00    0.00   60.00\n"


def reports(header: str, boot: str, now: str, *, cpu: bool = True) -> str:
    """Return a log of two reports, the first of them since boot."""
    first, second = (f"{AVG}{BOOT_CPU}\n", f"{AVG}{NOW_CPU}\n") if cpu else ("", "")
    return f"{LINUX}\n{first}{header}{boot}\n{second}{header}{now}\n"


SYSSTAT_10 = reports(
    "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await"
    " r_await w_await  svctm  %util\n",
    "sda   0.10 2.00 1.00 2.00 30.00 40.00 46.67 0.01 3.00 5.00 2.00 1.00 0.30\n"
    "nvme0n1 0.00 0.00 1.00 0.00 9.00 0.00 18.00 0.00 0.10 0.10 0.00 0.10 0.01\n",
    "sda   0.00 3.00 40.00 10.00 5120.00 1024.00 245.76 0.52 10.40 12.50 2.00 9.00 45.00\n"
    "nvme0n1 0.00 0.00 8000.00 0.00 1048576.00 0.00 262.14 2.00 0.25 0.25 0.00 0.12 100.00\n",
)
SYSSTAT_11_SECTORS = reports(
    "Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await"
    " r_await w_await  svctm  %util\n",
    "sda   0.10 2.00 1.00 2.00 60.00 80.00 46.67 0.01 3.00 5.00 2.00 1.00 0.30\n",
    "sda   0.00 3.00 40.00 10.00 10240.00 2048.00 245.76 0.52 10.40 12.50 2.00 9.00 45.00\n"
    "nvme0n1 0.00 0.00 8000.00 0.00 2097152.00 0.00 262.14 2.00 0.25 0.25 0.00 0.12 100.00\n",
)
SYSSTAT_11_6 = reports(
    "Device            r/s     w/s     rkB/s     wkB/s   rrqm/s   wrqm/s  %rrqm  %wrqm r_await"
    " w_await aqu-sz rareq-sz wareq-sz  svctm  %util\n",
    "sda 1.00 2.00 30.00 40.00 0.10 2.00 9.09 50.00 5.00 2.00 0.01 30.00 20.00 1.00 0.30\n",
    "sda 40.00 10.00 5120.00 1024.00 0.00 3.00 0.00 23.08 12.50 2.00 0.52 128.00 102.40 9.00"
    " 45.00\n"
    "nvme0n1 8000.00 0.00 1048576.00 0.00 0.00 0.00 0.00 0.00 0.25 0.00 2.00 131.07 0.00 0.12"
    " 100.00\n",
)
HEADER_12 = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s"
    "  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await"
    "  aqu-sz  %util\n"
)
BOOT_12 = (
    "sda 1.00 30.00 0.10 9.09 5.00 30.00 2.00 40.00 2.00 50.00 2.00 20.00 0.00 0.00 0.00 0.00"
    " 0.00 0.00 0.10 0.50 0.01 0.30\n"
)
NOW_12 = (
    "sda 40.00 5120.00 0.00 0.00 12.50 128.00 10.00 1024.00 3.00 23.08 2.00 102.40 0.00 0.00 0.00"
    " 0.00 0.00 0.00 0.10 0.50 0.52 45.00\n"
    "nvme0n1 8000.00 1048576.00 0.00 0.00 0.25 131.07 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00"
    " 0.00 0.00 0.00 0.00 0.00 0.00 2.00 100.00\n"
)
SYSSTAT_12 = reports(HEADER_12, BOOT_12, NOW_12)
SYSSTAT_12_MB = SYSSTAT_12.replace("kB/s", "MB/s").replace(" 5120.00 ", " 5.00 ")
SYSSTAT_12_MB = SYSSTAT_12_MB.replace(" 1024.00 ", " 1.00 ").replace(" 1048576.00 ", " 1024.00 ")
SYSSTAT_12_COMMA = SYSSTAT_12.replace(".", ",").replace("01/05/2026", "05.01.2026")
SYSSTAT_12_PRETTY = reports(
    "",
    "     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device\n"
    "    1.00     30.00     0.10   9.09    5.00    30.00 sda\n"
    "\n"
    "     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device\n"
    "    2.00     40.00     2.00  50.00    2.00    20.00 sda\n"
    "\n"
    "     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz Device\n"
    "    0.00      0.00     0.00   0.00    0.00     0.00 sda\n"
    "\n"
    "     f/s f_await  aqu-sz  %util Device\n"
    "    0.00    0.00    0.01   0.30 sda\n",
    "     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz Device\n"
    "   40.00   5120.00     0.00   0.00   12.50   128.00 sda\n"
    " 8000.00 1048576.00     0.00   0.00    0.25   131.07 nvme0n1\n"
    "\n"
    "     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz Device\n"
    "   10.00   1024.00     3.00  23.08    2.00   102.40 sda\n"
    "    0.00      0.00     0.00   0.00    0.00     0.00 nvme0n1\n"
    "\n"
    "     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz Device\n"
    "    0.00      0.00     0.00   0.00    0.00     0.00 sda\n"
    "    0.00      0.00     0.00   0.00    0.00     0.00 nvme0n1\n"
    "\n"
    "     f/s f_await  aqu-sz  %util Device\n"
    "    0.00    0.00    0.52  45.00 sda\n"
    "    0.00    0.00    2.00 100.00 nvme0n1\n",
)
SYSSTAT_12_HUMAN = (
    SYSSTAT_12_PRETTY.replace(" 5120.00 ", "    5.0M ")
    .replace(" 1024.00 ", "    1.0M ")
    .replace(" 1048576.00 ", " 1.0G ")
    .replace("45.00 sda", "45.0% sda")
)
SYSSTAT_11_HUMAN = reports(
    SYSSTAT_11_6.split("\n")[5] + "\n",
    "sda\n 1.00 2.00 30.0k 40.0k 0.10 2.00 9.1% 50.0% 5.00 2.00 0.01 30.0k 20.0k 1.00 0.3%\n",
    "sda\n 40.00 10.00 5.0M 1.0M 0.00 3.00 0.0% 23.1% 12.50 2.00 0.52 128.0k 102.4k 9.00 45.0%\n"
    "nvme0n1\n 8000.00 0.00 1.0G 0.0k 0.00 0.00 0.0% 0.0% 0.25 0.00 2.00 131.1k 0.0k 0.12 100.0%\n",
)
EXTENDED = {
    "sysstat 10": SYSSTAT_10,
    "sysstat 11, sectors": SYSSTAT_11_SECTORS,
    "sysstat 11.6": SYSSTAT_11_6,
    "sysstat 12": SYSSTAT_12,
    "sysstat 12, MB": SYSSTAT_12_MB,
    "sysstat 12, decimal comma": SYSSTAT_12_COMMA,
    "sysstat 12, --pretty": SYSSTAT_12_PRETTY,
    "sysstat 12, -h": SYSSTAT_12_HUMAN,
    "sysstat 11, -h": SYSSTAT_11_HUMAN,
}

JSON_DISKS = """\
                        {"disk_device": "sda", "r/s": 40.00, "w/s": 10.00, "rkB/s": 5120.00, \
"wkB/s": 1024.00, "r_await": 12.50, "w_await": 2.00, "aqu-sz": 0.52, "util": 45.00},
                        {"disk_device": "nvme0n1", "r/s": 8000.00, "w/s": 0.00, "rkB/s": \
1048576.00, "wkB/s": 0.00, "r_await": 0.25, "w_await": 0.00, "aqu-sz": 2.00, "util": 100.00}
"""
JSON_REPORT = """\
                {
                    "avg-cpu":  {"user": 30.00, "nice": 1.00, "system": 5.00, "iowait": 4.00, \
"steal": 0.00, "idle": 60.00},
                    "disk": [
%s                    ]
                }"""
JSON_HEAD = """\
{"sysstat": {
    "hosts": [
        {
            "nodename": "trainer",
            "number-of-cpus": 96,
            "date": "01/05/2026",
            "statistics": [
"""
JSON_TAIL = "\n            ]\n        }\n    ]\n}}\n"
JSON_BOOT = JSON_REPORT.replace("30.00", "3.00") % JSON_DISKS.replace("40.00", "1.00")
JSON_NOW = JSON_REPORT % JSON_DISKS
JSON = f"{JSON_HEAD}{JSON_BOOT},\n{JSON_NOW}{JSON_TAIL}"
JSON_Y = f"{JSON_HEAD}\n{JSON_NOW}{JSON_TAIL}"
"""``-y`` leaves an empty line where the first report was."""

DMON = """\
# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk     fb   bar1   ccpm
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz     MB     MB     MB
    0    321     45     60     35     12      0      0      0      0   2619   1980  43210     39      0
    1     80     38      -      0      0      -      -      0      0   2619    345      4      1      0
"""
DMON_OLD = """\
# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
# Idx     W     C     C     %     %     %     %   MHz   MHz
    0   321    45    60    35    12     0     0  2619  1980
    1    80    38     -     0     0     0     0  2619   345
"""
DMON_DATED = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz
 20260105   23:59:59      0    321     45     60     35     12      0      0   2619   1980
 20260105   23:59:59      1     80     38      -      0      0      0      0   2619    345
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz
 20260106   00:00:00      0    300     45     60     30     10      0      0   2619   1980
 20260106   00:00:00      1     80     38      -      0      0      0      0   2619    345
"""
DMON_GPM = """\
# gpu    pwr     sm    mem      gract    smutil      dram     pcirx
# Idx      W      %      %      GPM:%     GPM:%     GPM:%  GPM:MiB/s
    0    321     35     12       34.0      20.0      11.0       900
"""
DCGM = """\
#Entity   GRACT        SMACT        DRAMA        FBUSD
ID                                               MB
GPU 0     0.429        0.429        0.400        20420
GPU-I 0   N/A          N/A          N/A          9
GPU-I 1   0.750        0.640        0.800        20411
GPU 1     0.982        0.900        0.502        43210
GPU 0     0.440        0.429        0.400        20420
GPU-I 0   0.000        0.000        0.000        9
GPU-I 1   1.002        0.640        0.800        20411
GPU 1     0.984        0.900        0.502        43210
"""

SAR_CPU = f"""{LINUX}
08:47:01        CPU     %user     %nice   %system   %iowait    %steal     %idle
08:47:02        all     30.00      1.00      5.00      4.00      0.00     60.00
Average:        all     30.00      1.00      5.00      4.00      0.00     60.00
"""
SAR_CPU_ALL = f"""{LINUX}
08:47:01        CPU      %usr     %nice      %sys   %iowait    %steal      %irq     %soft    %guest\
    %gnice     %idle
08:47:02        all     29.00      1.00      3.00      4.00      0.00      1.00      1.00      1.00\
      0.00     60.00
Average:        all     29.00      1.00      3.00      4.00      0.00      1.00      1.00      1.00\
      0.00     60.00
"""
MPSTAT = f"""{LINUX}
08:47:01     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
08:47:02     all   29.00    1.00    3.00    4.00    1.00    1.00    0.00    1.00    0.00   60.00
08:47:02       0  100.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00

Average:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
Average:     all   29.00    1.00    3.00    4.00    1.00    1.00    0.00    1.00    0.00   60.00
"""
SAR_DISK_10 = f"""{LINUX}
08:47:01          DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util
08:47:02          sda     50.00  10240.00   2048.00    245.76      0.52     10.40      9.00     45.00
"""
SAR_DISK_12 = f"""{LINUX}
08:47:01          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util
08:47:02          sda     50.00   5120.00   1024.00      0.00    122.88      0.52     10.40     45.00
"""
SAR_DISK_PRETTY = f"""{LINUX}
08:47:01          tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util DEV
08:47:02        50.00   5120.00   1024.00      0.00    122.88      0.52     10.40     45.00 sda
Average:        50.00   5120.00   1024.00      0.00    122.88      0.52     10.40     45.00 sda
"""
SAR_NET = f"""{LINUX}
08:47:01        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
08:47:02           lo      2.00      2.00      1.00      1.00      0.00      0.00      0.00      0.00
08:47:02         eth0  40000.00   9000.00  60000.00    600.00      0.00      0.00      0.00      0.00

Average:        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
Average:         eth0  40000.00   9000.00  60000.00    600.00      0.00      0.00      0.00      0.00
"""
SAR_HALF_DAY = f"""{LINUX}
11:59:59 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle
12:00:00 PM     all     30.00      1.00      5.00      4.00      0.00     60.00
01:00:00 PM     all     30.00      1.00      5.00      4.00      0.00     60.00
11:59:59 PM     all     30.00      1.00      5.00      4.00      0.00     60.00
12:00:00 AM     all     30.00      1.00      5.00      4.00      0.00     60.00
"""
SAR_JAPANESE = """Linux 6.8.0 (trainer) \t2026年01月05日 \t_x86_64_\t(96 CPU)

08時47分01秒     CPU     %user     %nice   %system   %iowait    %steal     %idle
08時47分02秒     all     30.00      1.00      5.00      4.00      0.00     60.00
平均値:      all     30.00      1.00      5.00      4.00      0.00     60.00
"""
SAR_FRENCH = f"""{LINUX}
08:47:01        CPU     %user     %nice   %system   %iowait    %steal     %idle
08:47:02        all     30,00      1,00      5,00      4,00      0,00     60,00
Moyenne :     all     30,00      1,00      5,00      4,00      0,00     60,00
"""
QUERY_CSV = """\
timestamp, name, index, utilization.gpu [%], utilization.memory [%], memory.used [MiB], power.draw \
[W], enforced.power.limit [W], mig.mode.current
2026/01/05 08:47:02.117, NVIDIA H100 80GB HBM3, 0, 35 %, 12 %, 43210 MiB, 321.40 W, 700.00 W, Disabled
2026/01/05 08:47:02.119, NVIDIA H100 80GB HBM3, 1, [N/A], [N/A], [Unknown Error], [N/A], 700.00 W, \
Enabled
"""
EVERY_LOG = {
    **EXTENDED,
    "iostat JSON": JSON,
    "dmon": DMON,
    "dmon, old": DMON_OLD,
    "dmon, dated": DMON_DATED,
    "dmon, GPM": DMON_GPM,
    "dcgmi dmon": DCGM,
    "sar -u": SAR_CPU,
    "sar -u ALL": SAR_CPU_ALL,
    "mpstat": MPSTAT,
    "sar -d, 10": SAR_DISK_10,
    "sar -d, 12": SAR_DISK_12,
    "sar -dp": SAR_DISK_PRETTY,
    "sar -n DEV": SAR_NET,
    "sar, AM and PM": SAR_HALF_DAY,
    "sar, Japanese": SAR_JAPANESE,
    "sar, French": SAR_FRENCH,
    "query csv": QUERY_CSV,
}
